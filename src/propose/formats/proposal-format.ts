/** `plain`: SQL for psql. The others: as migrations of that tool. */
export const PROPOSAL_FORMATS = [
  'plain',
  'prisma',
  'drizzle',
  'flyway',
  'alembic',
  'django',
  'rails',
] as const;

export type ProposalFormat = (typeof PROPOSAL_FORMATS)[number];
export type ToolFormat = Exclude<ProposalFormat, 'plain'>;
