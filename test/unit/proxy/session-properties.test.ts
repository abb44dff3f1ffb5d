import { beforeAll, describe, test } from 'vitest';
import { parseText } from '../../../src/postgres/sql/parse.ts';
import { answersAsServer, endsWithEither } from '../../helpers/model/session-property.ts';
import { holds } from '../../helpers/properties.ts';

// The parser takes its time to load; from then on it answers within the turn.
beforeAll(async () => void (await parseText(Buffer.from('select 1'))));

describe('a session of the proxy', () => {
  test('answers as the server itself does, whatever is sent and however it is cut', () =>
    holds('session', 1_000, answersAsServer));

  test('ends with either of its ends, and so does every statement', () =>
    holds('lost session', 250, endsWithEither));
});
