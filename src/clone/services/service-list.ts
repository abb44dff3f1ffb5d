/** The services, one row each; SERVICE_IDS has their order. */
export { aiven } from './aiven.ts';
export { alloydb } from './alloydb.ts';
export { aurora } from './aurora.ts';
export { azure } from './azure.ts';
export { cloudsql } from './cloudsql.ts';
export { cnpg } from './cnpg.ts';
export { dblab } from './dblab.ts';
export { digitalocean } from './digitalocean.ts';
export { heroku } from './heroku.ts';
export { neon } from './neon.ts';
export { planetscale } from './planetscale.ts';
export { rds } from './rds.ts';
export { supabase } from './supabase.ts';
export { tiger } from './tiger.ts';
export { xata } from './xata.ts';
