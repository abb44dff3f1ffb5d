/** Extensions with functions that connect to other systems, run jobs of their own, or write files of the server. */
export const EXTERNAL_EXTENSIONS = [
  ...[
    'adminpack',
    'amqp',
    'aws_commons',
    'aws_lambda',
    'aws_s3',
    'azure_ai',
    'azure_storage',
    'citus',
    'dblink',
  ],
  ...[
    'http',
    'pg_background',
    'pg_cron',
    'pg_curl',
    'pg_net',
    'pgl_ddl_deploy',
    'pglogical',
    'pgmq_http',
    'plproxy',
  ],
  ...['postgres_ai', 'pgai'],
];

/** Languages whose functions may do what the server's user may, by the names of their extensions. */
const UNTRUSTED_LANGUAGE = /^(?:pl(?:python[23]?|perl|tcl|lua|luajit|java|r|js)u|plr|plsh|pljava)$/;

/** Tells if CREATE EXTENSION, or CREATE LANGUAGE, with this name gives access to other systems. */
export function givesExternalAccess(extension: string): boolean {
  return EXTERNAL_EXTENSIONS.includes(extension) || UNTRUSTED_LANGUAGE.test(extension);
}
