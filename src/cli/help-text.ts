/** The parts of `--help` that the table of options does not give, in lines of 78 columns. */

export const COMMAND_USAGE = '[options] -- <command> [args...]';
export const USAGE = `[apply | swap] ${COMMAND_USAGE}\n       safemigrate <subcommand> [options]`;

export const DESCRIPTION = `Rehearses a PostgreSQL migration command on a full-size clone of the target,
and reports what it would do. Only "apply" and "swap" change the target.

Examples:
  safemigrate -- npx prisma migrate deploy         rehearse, change nothing
  safemigrate apply -- npx prisma migrate deploy   rehearse, ask, then run it
  safemigrate swap -- npx prisma migrate deploy    migrate a clone, swap it in`;

export const NOTES = `
All options: safemigrate --help all; of a subcommand: safemigrate apply --help.
Without --url the target is $DATABASE_URL, else the PG* variables, else ./.env.
Exit codes: 0 passed, 1 did not pass, 2 wrong usage, 3 could not rehearse,
4 apply or swap refused or undone, 5 target changed: look at it, 128+n signal`;
