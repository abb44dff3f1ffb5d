/** The values of `target_session_attrs`. */
export type SessionAttributes = 'any' | 'read-write' | 'read-only' | 'primary' | 'standby';

/** Returns the wanted kinds for each pass over all hosts: `prefer-standby` is a standby first, then any server. */
export function sessionAttributePasses(value: string | undefined): SessionAttributes[] {
  switch (value) {
    case 'read-write':
    case 'read-only':
    case 'primary':
    case 'standby':
      return [value];
    case 'prefer-standby':
      return ['standby', 'any'];
    default:
      return ['any'];
  }
}

/**
 * Returns the reason why the server is not of the wanted kind, or undefined if it is. From version 14 on every server
 * reports both settings at login; one that reports neither (a pooler) cannot be judged and is accepted.
 */
export function acceptsServer(
  wanted: SessionAttributes,
  reported: ReadonlyMap<string, string>,
): string | undefined {
  const standby = reported.get('in_hot_standby') === 'on';
  const readOnly = standby || reported.get('default_transaction_read_only') === 'on';
  switch (wanted) {
    case 'read-write':
      return readOnly ? 'the session is read-only' : undefined;
    case 'read-only':
      return readOnly ? undefined : 'the session is not read-only';
    case 'primary':
      return standby ? 'the server is in hot standby mode' : undefined;
    case 'standby':
      return standby ? undefined : 'the server is not in hot standby mode';
    case 'any':
      return undefined;
  }
}
