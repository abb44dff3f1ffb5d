import type { Source } from './clone-service.ts';

/** Arguments that every call of gcloud ends with. */
export function inProject([project = '']: Source): string[] {
  return ['--project', project, '--quiet', '--format', 'json'];
}
