import { mkdtempSync } from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll } from 'vitest';
import { guardFolder } from '../../src/local-server/folder-cleaner.ts';
import { until } from './cutting.ts';
import type { FakeService, RealProgram, Thing } from './fake-service.ts';
import { realProgram } from './service-programs.ts';

/**
 * Moto, which answers the requests of the real `aws` and holds what they make. A fake stands between them: it adds delays and
 * failures, and names real servers where moto names hosts that do not exist.
 */
export interface Moto {
  readonly aws: RealProgram;
  /** Sends one request of RDS. @throws an error with the answer, if it is not 200. */
  send(parameters: URLSearchParams): Promise<string>;
  request(action: string, parameters?: Readonly<Record<string, string>>): Promise<string>;
}

/** Any key will do; its scope says which service and region are meant. */
const HEADERS = {
  authorization:
    'AWS4-HMAC-SHA256 Credential=key/20260101/eu-west-1/rds/aws4_request, SignedHeaders=host, Signature=0',
  'content-type': 'application/x-www-form-urlencoded; charset=utf-8',
};

/** Starts moto. It ends with the test file, also with one that is killed. */
export async function startMoto(): Promise<Moto> {
  const aws = await realProgram('aws');
  let url = '';
  if ('folder' in aws.installed) {
    const folder = mkdtempSync(path.join(tmpdir(), 'moto-'));
    const guard = guardFolder(folder);
    afterAll(() => guard.dismiss());
    const log = path.join(folder, 'log');
    const output = await open(log, 'wx');
    const program = path.join(aws.installed.folder, 'bin', 'moto_server');
    const options = { environment: process.env, output: output.fd };
    await guard.launch(program, ['-H', '127.0.0.1', '-p', '0'], options);
    await output.close();
    await until('moto listens', async () => {
      url = /Running on (http:\S+)/.exec(await readFile(log, 'utf8'))?.[1] ?? '';
      return url !== '';
    });
  }
  const send: Moto['send'] = async (body) => {
    const response = await fetch(url, { method: 'POST', headers: HEADERS, body });
    const text = await response.text();
    if (response.status !== 200) throw new Error(text);
    return text;
  };
  return {
    aws,
    send,
    request: (Action, parameters) =>
      send(new URLSearchParams({ Action, Version: '2014-10-31', ...parameters })),
  };
}

/** Every text of this element, in the order of the answer. */
export function textsOf(xml: string, element: string): string[] {
  return [...xml.matchAll(new RegExp(`<${element}>([^<]*)</${element}>`, 'g'))].map(([, text = '']) => text);
}

/** All pages of a list. */
export async function pagesOf(moto: Moto, action: string): Promise<string> {
  let all = '';
  for (let marker: string | undefined = ''; marker !== undefined; ) {
    const page: string = await moto.request(action, marker === '' ? {} : { Marker: marker });
    all += page;
    [marker] = textsOf(page, 'Marker');
  }
  return all;
}

/** Changes the parts of an answer that are about clones. */
export function changedClones(
  xml: string,
  { things }: FakeService,
  { element, identifier }: { readonly element: string; readonly identifier: string },
  change: (part: string, thing: Thing) => string,
): string {
  return xml.replace(new RegExp(`<${element}>.*?</${element}>`, 'gs'), (part) => {
    const [name] = textsOf(part, identifier);
    const thing = things.find((each) => each.name === name && !each.isForeign);
    return thing === undefined ? part : change(part, thing);
  });
}
