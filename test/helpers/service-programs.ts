import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { RealProgram } from './fake-service.ts';
import { EVERYTHING } from './share.ts';
import { type Toolchain, toolchain } from './toolchains.ts';
import { NPM, PYTHON } from './tools.ts';

/** Command lines of services that a registry has, and how each is led to a fake. */
interface Row extends Omit<RealProgram, 'installed'> {
  readonly toolchain: Toolchain;
}

const asJson = (message: string) => JSON.stringify({ message });

/** A program in Go, which its module builds as a tool. */
const go = (source: string): Toolchain => ({
  pins: ['go.mod', 'go.sum'],
  probe: ['go', 'version'],
  needs: 'Go 1.26 or newer',
  install: [['go', 'build', '-o=bin/', source]],
});

const ROWS = {
  aws: {
    toolchain: PYTHON,
    command: () => ['bin/aws'],
    variables: (url) => ({
      AWS_ENDPOINT_URL: url,
      AWS_ACCESS_KEY_ID: 'key',
      AWS_SECRET_ACCESS_KEY: 'secret',
      AWS_CONFIG_FILE: '/dev/null',
      // A request that fails is the fake's fault, and is not sent again.
      AWS_MAX_ATTEMPTS: '1',
    }),
    refusal: (message) =>
      message.startsWith('<')
        ? message
        : `<ErrorResponse><Error><Type>Sender</Type><Code>Refused</Code><Message>${message}</Message></Error></ErrorResponse>`,
  },
  aiven: {
    toolchain: PYTHON,
    command: () => ['bin/avn'],
    variables: (url) => ({ AIVEN_WEB_URL: url, AIVEN_AUTH_TOKEN: 'token', AIVEN_CONFIG_DIR: '/nowhere' }),
    refusal: asJson,
  },
  neon: {
    toolchain: NPM,
    command: (url) => ['node_modules/.bin/neon', '--api-host', url, '--no-analytics'],
    variables: () => ({ NEON_API_KEY: 'key' }),
    refusal: asJson,
  },
  supabase: {
    toolchain: NPM,
    command: () => ['node_modules/@supabase/cli-linux-x64/bin/supabase'],
    variables: () => ({ SUPABASE_ACCESS_TOKEN: `sbp_${'0'.repeat(40)}`, DO_NOT_TRACK: '1' }),
    settings: {
      variable: 'SUPABASE_PROFILE',
      text: (url) => `name: fake\napi_url: ${url}\ndashboard_url: ${url}\nproject_host: example.com\n`,
    },
    refusal: asJson,
  },
  digitalocean: {
    toolchain: go('github.com/digitalocean/doctl/cmd/doctl'),
    command: (url) => ['bin/doctl', '--api-url', url, '--http-retry-max', '0'],
    variables: () => ({ DIGITALOCEAN_ACCESS_TOKEN: 'token' }),
    refusal: asJson,
  },
  tiger: {
    toolchain: go('github.com/timescale/tiger-cli/cmd/tiger'),
    command: () => ['bin/tiger'],
    variables: (url) => ({
      TIGER_API_URL: url,
      TIGER_PUBLIC_KEY: 'key',
      TIGER_SECRET_KEY: 'secret',
      TIGER_ANALYTICS: 'false',
      TIGER_VERSION_CHECK: 'false',
    }),
    refusal: asJson,
    statusOf: (method) => (method === 'GET' ? 200 : 202),
  },
} as const satisfies Record<string, Row>;

/** A real command line, installed if need be. */
export async function realProgram(name: keyof typeof ROWS): Promise<RealProgram> {
  const { toolchain: wanted, ...row } = ROWS[name];
  return { ...row, installed: await toolchain(name, pinsOf(name), wanted) };
}

/** A program that Go builds in a minute of CPU time, for `npm run soak`; undefined elsewhere, where a shim takes its place. */
export async function builtProgram(name: 'digitalocean' | 'tiger'): Promise<RealProgram | undefined> {
  return EVERYTHING ? realProgram(name) : undefined;
}

function pinsOf(name: string): string {
  return fileURLToPath(new URL(path.join('../../fixtures/services', name), import.meta.url));
}
