import type { Target } from '../../database/target.ts';
import { SafemigrateError } from '../../errors.ts';
import type { CloneService, Source } from './clone-service.ts';

/** A part of SAFEMIGRATE_CLONE_OF. One that begins with a hyphen would be an option of the service's program. */
const PART = /^[A-Za-z0-9][\w.:@-]*$/;

/**
 * Returns the parts of SAFEMIGRATE_CLONE_OF, or else of the target's host.
 * @throws SafemigrateError `CLONE` if neither names the source.
 */
export function sourceOf(
  service: CloneService,
  {
    options,
    target,
  }: {
    readonly options: { readonly of: string | null };
    readonly target: Pick<Target, 'settings'>;
  },
): Source {
  const text = options.of ?? sourceOfHost(service, target);
  if (text !== null) return parseSource(service, text);
  throw new SafemigrateError('CLONE', `SAFEMIGRATE_CLONE_OF must name the target as ${service.title} does.`, {
    hint: `Its form is ${service.sourceForm}. The target was not touched.`,
  });
}

/** @throws SafemigrateError `CONFIGURATION` */
export function parseSource({ title, sourceForm }: CloneService, text: string): Source {
  const all = sourceForm.replace(/[[\]]/g, '').split('/');
  const needed = sourceForm
    .replace(/\[.*?\]/g, '')
    .split('/')
    .filter(Boolean).length;
  const parts = text.split('/');
  if (parts.length < needed || parts.length > all.length || !parts.every((part) => PART.test(part)))
    throw new SafemigrateError(
      'CONFIGURATION',
      `SAFEMIGRATE_CLONE_OF is "${text}", and for ${title} it is ${sourceForm}.`,
      {
        hint: 'Set it in this form. The target was not touched.',
      },
    );
  return parts;
}

/** Finds the source in the host and user of the target; null if they do not contain it. */
export function sourceOfHost(service: CloneService, { settings }: Pick<Target, 'settings'>): string | null {
  const match = service.signs.host?.exec(settings.hosts[0]?.host ?? '');
  return match ? service.sourceIn(match, settings.user) : null;
}
