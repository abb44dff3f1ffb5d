import { beforeAll, test } from 'vitest';
import { parseText } from '../../src/postgres/sql/parse.ts';
import { answersAsServer, endsWithEither } from '../helpers/model/session-property.ts';
import { holds } from '../helpers/properties.ts';

// The parser takes its time to load; from then on it answers within the turn.
beforeAll(async () => void (await parseText(Buffer.from('select 1'))));

test('a session of the proxy answers as the server itself does', () =>
  holds('session', 30_000, answersAsServer));

test('a session of the proxy ends with either of its ends', () =>
  holds('lost session', 10_000, endsWithEither));
