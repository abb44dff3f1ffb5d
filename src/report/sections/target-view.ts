import { formatTime, plural } from '../../format.ts';
import type { Report } from '../../model/report.ts';
import { alarmingChanges } from '../phrases.ts';
import { EVIDENCE, type Item, named, type Section, sql } from '../view/section.ts';

/** The changes of the target behind exit code 5, which must not be overlooked. */
export function targetChangesView({ target }: Report): Section[] {
  const made = alarmingChanges(target);
  if (made.length === 0) return [];
  const isProved = made.some(({ madeBy }) => madeBy === 'command');
  const unknown = isProved ? '' : ', since it is unknown whether the command or somebody else changed it';
  return [
    {
      id: 'target',
      title: isProved ? 'The command changed the target itself' : 'The target changed while the command ran',
      summary: [
        'a person must look at ',
        named(target.database),
        ` on ${target.host}:${target.port} now${unknown}`,
      ],
      outcome: 'alarm',
      folds: 'never',
      importance: 10,
      blocks: [
        {
          kind: 'items',
          items: made.map(
            ({ what, evidence }): Item => ({
              text: what,
              notes: [{ label: EVIDENCE, text: evidence }],
            }),
          ),
        },
      ],
    },
  ];
}

/** Sessions by which the command bypassed its clone. */
export function targetSessionsView({ targetConnections }: Report): Section[] {
  if (targetConnections.length === 0) return [];
  return [
    {
      id: 'target-sessions',
      title: 'On the target itself',
      summary: `${plural(targetConnections.length, 'session')} of the command`,
      folds: 'never',
      importance: 9,
      blocks: [{ kind: 'items', items: targetConnections.map(sessionItem) }],
    },
  ];
}

function sessionItem(session: Report['targetConnections'][number]): Item {
  const { process: program, user, application, connectedAt, query, ended } = session;
  const role = user === null ? '' : ` as ${user}`;
  const through = application === '' ? '' : ` (application_name ${application})`;
  const since = `, from ${formatTime(connectedAt)}${ended ? ', terminated by safemigrate' : ''}`;
  return {
    mark: 'bad',
    text: [sql(program.command), ` (pid ${program.pid})${role}${through}${since}`],
    notes: query === null ? [] : [{ label: 'Its query', text: [sql(query)] }],
  };
}

/** Things that the run could not remove. They come last, next to the prompt, since somebody has to remove them. */
export function cleanupView({ cleanup }: Pick<Report, 'cleanup'>): Section[] {
  if (cleanup.failed.length === 0) return [];
  return [
    {
      id: 'cleanup',
      title: 'Not cleaned up',
      summary: `${plural(cleanup.failed.length, 'item')} left behind`,
      folds: 'never',
      importance: 10,
      blocks: [
        {
          kind: 'items',
          items: cleanup.failed.map(
            ({ name, reason }): Item => ({
              mark: 'bad',
              text: [named(name), `: ${reason}`],
            }),
          ),
        },
        {
          kind: 'paragraph',
          text: ['Run ', named('safemigrate clean'), ' to remove what is left.'],
        },
      ],
    },
  ];
}
