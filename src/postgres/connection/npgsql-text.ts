// Npgsql's connection strings: `Host=db;Port=5432;Username=app;Password="p;w";Database=shop`. Keys ignore case and spaces.

/** libpq's names, by Npgsql's. */
const NAMES: Readonly<Record<string, string>> = {
  host: 'host',
  server: 'host',
  port: 'port',
  database: 'dbname',
  db: 'dbname',
  username: 'user',
  userid: 'user',
  user: 'user',
  uid: 'user',
  password: 'password',
  pwd: 'password',
  psw: 'password',
  sslmode: 'sslmode',
};

/** Spelling by Npgsql of the names and modes that are written. */
const SPELLED: Readonly<Record<string, string>> = {
  host: 'Host',
  port: 'Port',
  dbname: 'Database',
  user: 'Username',
  password: 'Password',
  sslmode: 'SSL Mode',
  'verify-ca': 'VerifyCA',
  'verify-full': 'VerifyFull',
};

/** Settings of the server's certificate, which are wrong for another server. */
const ABOUT_CERTIFICATE = /^(trustservercertificate|rootcertificate|sslcertificate|sslkey|sslpassword)$/;

const PAIR = /\s*([^=;]+?)\s*=\s*("(?:""|[^"])*"|'(?:''|[^'])*'|[^;]*?)\s*(?:;|$)/gy;

/** Requires a host: SQL Server's strings look the same, and begin with `Server`. */
export function looksLikeNpgsql(text: string): boolean {
  return /;/.test(text) && /(?:^|;)\s*host\s*=/i.test(text) && /(?:^|;)\s*(?:database|db)\s*=/i.test(text);
}

/** Returns the pairs by libpq's names, and the others as they were written. */
export function readNpgsql(text: string) {
  const values = new Map<string, string>();
  const others: string[] = [];
  for (const [whole, key = '', value = ''] of text.matchAll(PAIR)) {
    const name = key.toLowerCase().replace(/\s+/g, '');
    const known = NAMES[name];
    if (known) values.set(known, known === 'sslmode' ? readMode(unquoted(value)) : unquoted(value));
    else if (!ABOUT_CERTIFICATE.test(name)) others.push(whole.replace(/;$/, '').trim());
  }
  return { values, others };
}

export function writeNpgsql(values: ReadonlyMap<string, string>, others: readonly string[]): string {
  const pairs = [...values].flatMap(([key, value]) =>
    key in SPELLED ? [`${SPELLED[key]}=${key === 'sslmode' ? writeMode(value) : quoted(value)}`] : [],
  );
  return [...pairs, ...others].join(';');
}

function readMode(mode: string): string {
  return mode.toLowerCase().replace(/^verify-?/, 'verify-');
}

function writeMode(mode: string): string {
  return SPELLED[mode] ?? mode.charAt(0).toUpperCase() + mode.slice(1);
}

function unquoted(value: string): string {
  const [quote = ''] = value;
  if (!/["']/.test(quote) || !value.endsWith(quote) || value.length < 2) return value;
  return value.slice(1, -1).replaceAll(quote + quote, quote);
}

function quoted(value: string): string {
  return /^[^\s;'"=]*$/.test(value) ? value : `"${value.replaceAll('"', '""')}"`;
}
