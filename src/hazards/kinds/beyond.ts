import type { HazardRecord } from '../hazard-definition.ts';

/** What leaves the database. */
export const BEYOND_DATABASE: readonly HazardRecord[] = [
  {
    code: 'ACTS_ON_SERVER',
    title: 'code acts on the whole server, and could not be stopped',
    condition:
      "The clone is in the target's server and has an event trigger, or a function, view or trigger made in a way that safemigrate did not see, that runs a function which acts beyond its database: pg_terminate_backend, pg_drop_replication_slot, pg_reload_conf, dblink, and the like.",
    effect:
      "It may have run during the rehearsal: then it acted on the target's server, its sessions, slots, settings or files.",
    safer:
      'Rehearse on a clone in a server of its own (--clone cluster, --clone-to), and keep such calls out of migrations.',
    find: ({ facts: { catalogue } }) =>
      catalogue.actsOnServer.map(({ object, runs, why }) => ({
        statement: null,
        relation: null,
        severity: 'error',
        message: `${object} runs ${runs}, and safemigrate could not see whether it was used`,
        evidence: why,
        advice:
          "Look at the target's sessions, replication slots and settings, and rehearse with --clone cluster, where it can do no harm.",
      })),
  },
];
