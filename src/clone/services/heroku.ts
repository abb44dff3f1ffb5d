import * as z from 'zod/mini';
import { SafemigrateError } from '../../errors.ts';
import type { CloneService, ServiceCli, ServiceClone, SourceFacts } from './clone-service.ts';
import { notFound } from './service-cli.ts';

const addon = z.object({
  id: z.string(),
  name: z.string(),
  state: z.string(),
  created_at: z.string(),
  config_vars: z.optional(z.array(z.string())),
  plan: z.optional(z.object({ name: z.optional(z.string()) })),
  app: z.optional(z.object({ name: z.optional(z.string()) })),
});

function addonsOf(cli: ServiceCli, app: string) {
  return cli.json(['addons', '--app', app, '--json'], z.array(addon));
}

/**
 * Heroku Postgres: a fork of the database. It belongs to another app than the database, because Heroku restarts an app that gets an
 * add-on.
 */
export const heroku: CloneService<SourceFacts> = {
  title: 'Heroku Postgres',
  program: 'heroku',
  login: 'heroku login',
  sourceForm: 'app/variable/other-app',
  strategy: 'restore',
  readyMs: 30 * 60_000,
  readsLazily: false,
  cost: "an add-on of the source's plan, while the run lasts",
  billing: { machine: 'hours of the plan' },
  rights: 'the add-ons of both apps: read; those of the other app: create, destroy',
  // Its hosts are named by AWS. Event triggers for extensions are in every database.
  signs: { procedure: 'extension_before_drop' },
  sourceIn: () => null,
  async inspect(cli, [app = '', variable = '', other = '']) {
    if (app === other)
      throw new SafemigrateError('CLONE', `Heroku would restart ${app}, since an app gets the clone.`, {
        hint: `Name another app at the end of SAFEMIGRATE_CLONE_OF: ${heroku.sourceForm}. The target was not touched.`,
      });
    const found = (await addonsOf(cli, app)).find(({ config_vars }) => config_vars?.includes(variable));
    if (found === undefined) throw notFound(heroku, `add-on of ${app} with the variable ${variable}`);
    await addonsOf(cli, other);
    return { instance: found.plan?.name ?? null, asOf: null };
  },
  async create(cli, { source: [app, variable, other = ''], name }, { instance }) {
    const at = ['--app', other, '--name', name];
    await cli.text(['addons:create', instance ?? '', ...at, '--', '--fork', `${app}::${variable}`]);
  },
  async list(cli, [, , other = '']) {
    const found = await addonsOf(cli, other);
    return found.map((each) => ({
      id: each.id,
      name: each.name,
      state: stateOf(each.state),
      asOf: each.created_at,
      doubt: each.app?.name === other ? null : 'it belongs to another app',
    }));
  },
  // A fork has another user and password.
  async address(cli, { name }, { source: [, , other = ''] }) {
    await cli.text(['pg:wait', name, '--app', other, '--no-notify']);
    const told = await cli.text(['pg:credentials:url', name, '--app', other]);
    return { url: /postgres(ql)?:\/\/\S+/.exec(told)?.[0] ?? '' };
  },
  async destroy(cli, { name }, [, , other = '']) {
    await cli.text(['addons:destroy', name, '--app', other, '--confirm', other]);
  },
};

function stateOf(state: string): ServiceClone['state'] {
  if (state === 'provisioned') return 'ready';
  if (state === 'deprovisioning') return 'deleting';
  return state === 'provisioning' ? 'creating' : 'failed';
}
