/** The address of a PostgreSQL server and how to log in, as libpq understands them. */
export interface ConnectionSettings {
  /** Tried in order. A host that starts with `/` is the folder of a Unix socket. */
  readonly hosts: readonly HostAndPort[];
  readonly user: string;
  /** From the URL, the environment or the password file; never printed. */
  readonly password?: string;
  readonly database: string;
  readonly sslmode: SslMode;
  /** Every other parameter as it was written (`sslrootcert`, `options`, `connect_timeout`, `target_session_attrs`, …). */
  readonly parameters: Readonly<Record<string, string>>;
}

export interface HostAndPort {
  readonly host: string;
  readonly port: number;
}

export type SslMode = 'disable' | 'allow' | 'prefer' | 'require' | 'verify-ca' | 'verify-full';
