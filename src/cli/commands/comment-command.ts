import { readFileSync } from 'node:fs';
import { messageOf, SafemigrateError } from '../../errors.ts';
import { COMMENT_MARK } from '../../report/markdown.ts';
import { notePlace, publishNote } from '../ci/pull-request-notes.ts';
import { EXIT } from '../exit-codes.ts';
import { COMMENT_SETTINGS } from '../options/subcommand-settings.ts';
import { visibleLines } from '../print.ts';
import { gatherOptions } from '../read-options.ts';

/**
 * Puts a Markdown report into the one comment of the pull request or merge request that this pipeline belongs to.
 * @returns 0 even without the right to comment: that says nothing about the migration.
 */
export async function commentCommand(
  file: string | undefined,
  flags: Record<string, unknown>,
): Promise<number> {
  const { name } = await gatherOptions(COMMENT_SETTINGS, flags);
  if (file === undefined)
    throw new SafemigrateError('USAGE', 'There is no report to comment with.', {
      hint: 'safemigrate comment report.md, after a run with --report report.md',
    });
  const mark = name === undefined ? COMMENT_MARK : COMMENT_MARK.replace('-->', `${slug(name)} -->`);
  const text = read(file).replace(COMMENT_MARK, mark);
  const place = notePlace(process.env, (path) => {
    try {
      return readFileSync(path, 'utf8');
    } catch {
      return undefined;
    }
  });
  if ('nowhere' in place) {
    process.stderr.write(`No comment: ${place.nowhere}.\n`);
    return EXIT.passed;
  }
  const published = await publishNote(place, mark, text);
  process.stderr.write(
    visibleLines(
      'failed' in published
        ? `No comment on ${place.name}: ${published.failed}. The token needs the right to write comments there.\n`
        : `Comment on ${place.name} ${published.done}.\n`,
    ),
  );
  return EXIT.passed;
}

/** Replaces everything that could end an HTML comment. */
function slug(name: string): string {
  return name.replace(/[^\w.-]+/g, '-');
}

function read(file: string): string {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    throw new SafemigrateError('CONFIGURATION', `The report ${file} cannot be read: ${messageOf(cause)}.`, {
      cause,
    });
  }
  if (text.startsWith(COMMENT_MARK)) return text;
  throw new SafemigrateError('CONFIGURATION', `${file} is no Markdown report of safemigrate.`, {
    hint: 'Write one with --report report.md',
  });
}
