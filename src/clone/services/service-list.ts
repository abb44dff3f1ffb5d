import type { CloneService } from './clone-service.ts';

/**
 * The hosted services that make clones, one row each, by their names for --clone. Only --clone names them, because they cost money.
 * A recipe is loaded when its service is used: to read a command line, names are enough.
 */
const SERVICES = byName({
  neon: async () => (await import('./neon.ts')).neon,
  rds: async () => (await import('./rds.ts')).rds,
  aurora: async () => (await import('./aurora.ts')).aurora,
  cloudsql: async () => (await import('./cloudsql.ts')).cloudsql,
  alloydb: async () => (await import('./alloydb.ts')).alloydb,
  azure: async () => (await import('./azure.ts')).azure,
  supabase: async () => (await import('./supabase.ts')).supabase,
  planetscale: async () => (await import('./planetscale.ts')).planetscale,
  dblab: async () => (await import('./dblab.ts')).dblab,
  cnpg: async () => (await import('./cnpg.ts')).cnpg,
  heroku: async () => (await import('./heroku.ts')).heroku,
  digitalocean: async () => (await import('./digitalocean.ts')).digitalocean,
  aiven: async () => (await import('./aiven.ts')).aiven,
  tiger: async () => (await import('./tiger.ts')).tiger,
  xata: async () => (await import('./xata.ts')).xata,
});

type Load = () => Promise<CloneService>;

function byName<Name extends string>(rows: Readonly<Record<Name, Load>>): typeof rows {
  return rows;
}

export type ServiceId = keyof typeof SERVICES;
export const SERVICE_IDS = Object.keys(SERVICES) as readonly ServiceId[];

export interface ListedService extends CloneService {
  readonly id: ServiceId;
}

export async function serviceOf(id: ServiceId): Promise<ListedService> {
  return { ...(await SERVICES[id]()), id };
}

/** The service that --clone names; undefined if it names another method. */
export async function serviceNamed(method: string): Promise<ListedService | undefined> {
  const id = SERVICE_IDS.find((each) => each === method);
  return id && serviceOf(id);
}

export function allServices(): Promise<ListedService[]> {
  return Promise.all(SERVICE_IDS.map(serviceOf));
}
