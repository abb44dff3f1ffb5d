import { SERVICE_IDS, type ServiceId } from '../clone-settings.ts';
import { aiven } from './aiven.ts';
import { alloydb } from './alloydb.ts';
import { aurora } from './aurora.ts';
import { azure } from './azure.ts';
import type { CloneService } from './clone-service.ts';
import { cloudsql } from './cloudsql.ts';
import { cnpg } from './cnpg.ts';
import { dblab } from './dblab.ts';
import { digitalocean } from './digitalocean.ts';
import { heroku } from './heroku.ts';
import { neon } from './neon.ts';
import { planetscale } from './planetscale.ts';
import { rds } from './rds.ts';
import { supabase } from './supabase.ts';
import { tiger } from './tiger.ts';

const SERVICES: Readonly<Record<ServiceId, CloneService>> = {
  neon,
  rds,
  aurora,
  cloudsql,
  alloydb,
  azure,
  supabase,
  planetscale,
  dblab,
  cnpg,
  heroku,
  digitalocean,
  aiven,
  tiger,
};

/** The service that --clone names; undefined if it names another method. */
export function serviceNamed(method: string): CloneService | undefined {
  const id = SERVICE_IDS.find((each) => each === method);
  return id && SERVICES[id];
}

export function allServices(): CloneService[] {
  return SERVICE_IDS.map((id) => SERVICES[id]);
}
