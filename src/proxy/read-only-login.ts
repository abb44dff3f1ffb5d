import { Refusal } from './startup.ts';
import { logIn, ServerRefusal, type Upstream } from './upstream.ts';

const READ_ONLY = 'default_transaction_read_only';
const CONNECTION_FAILURE = '08006';
const PROTOCOL_VIOLATION = '08P01';

/**
 * Logs in so that the session's transactions are read-only, also if the client asks for others: the server takes the last
 * value of a setting, and reports this one. @throws Refusal if a pooler in front of it does not pass the setting on.
 */
export async function logInReadOnly(
  settings: Parameters<typeof logIn>[0],
  parameters: Parameters<typeof logIn>[1],
  ...more: [signal: AbortSignal, version: number]
): Promise<Upstream> {
  const refusal = new Refusal({
    sqlstate: CONNECTION_FAILURE,
    message: `the database "${settings.database}" is not the rehearsed one, and through this pooler sessions there could not be made read-only`,
    hint: "Connect to the server's own address.",
  });
  const upstream = await logIn(settings, [...parameters, [READ_ONLY, 'on']], ...more).catch(
    (error: unknown) => {
      const cause = error instanceof Error ? error.cause : undefined;
      throw cause instanceof ServerRefusal && cause.code === PROTOCOL_VIOLATION ? refusal : error;
    },
  );
  if (upstream.parameters.get(READ_ONLY) === 'on') return upstream;
  upstream.socket.destroy();
  throw refusal;
}
