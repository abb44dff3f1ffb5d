import { expect, test } from 'vitest';
import { ProtocolError } from '../../../src/postgres/protocol/frames.ts';
import { LargeText } from '../../../src/proxy/large-text.ts';
import type { Gate } from '../../../src/proxy/observed.ts';

const GATE: Gate = {
  before: () => 'run',
  part: (text) => (text.includes('CREATE ROLE') ? { sqlstate: '42501', message: 'refused' } : 'run'),
};

const TEXT = `${'x'.repeat(1000)} CREATE ROLE r ${'x'.repeat(1000)}`;

function send(text: string, cutAt: number, bytes = text.length): void {
  const large = new LargeText(GATE, bytes);
  large.take(Buffer.from(text.slice(0, cutAt)));
  large.take(Buffer.from(text.slice(cutAt)));
}

test('a text that comes in parts is refused wherever it is cut', () => {
  for (let cutAt = 0; cutAt <= TEXT.length; cutAt += 7)
    expect(() => send(TEXT, cutAt), `cut at ${cutAt}`).toThrow(ProtocolError);
});

test('what comes behind it is no part of it', () => {
  send(`${'x'.repeat(500)}CREATE ROLE r`, 500, 500);
});

test('a gate that reads no parts lets it through', () => {
  const large = new LargeText({ before: () => 'run' }, TEXT.length);
  large.take(Buffer.from(TEXT));
});
