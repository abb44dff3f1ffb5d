import { describe, expect, test } from 'vitest';
import { judgeMounts } from '../../../src/clone/template/filesystem.ts';

const mounts = (...lines: string[]) =>
  lines
    .map((line, index) => {
      const [folder, type, root = '/'] = line.split(' ');
      return `${40 + index} 27 7:${index} ${root} ${folder} rw,relatime shared:${index} master:2 - ${type} /dev/x rw`;
    })
    .join('\n');

const judge = (text: string, ...folders: string[]) => judgeMounts(text, folders).canShare;

describe('the file system of a folder', () => {
  test('is that of the innermost mount that holds it', () => {
    const text = mounts('/ ext4', '/var btrfs', '/var/lib/pg xfs', '/var/lib/pg18 ext4');
    expect(judge(text, '/var/lib/pg/data')).toBe('perhaps');
    expect(judge(text, '/var/lib/pg')).toBe('perhaps');
    expect(judge(text, '/var/lib/pg18/data')).toBe('no');
    expect(judge(text, '/var/lib/pg2/data')).toBe('yes');
    expect(judge(text, '/srv/data')).toBe('no');
  });

  test('is that of the mount on top, where two are in the same place', () => {
    expect(judge(mounts('/ ext4', '/data ext4', '/data btrfs'), '/data/pg')).toBe('yes');
    expect(judge(mounts('/ ext4', '/data btrfs', '/data tmpfs'), '/data/pg')).toBe('no');
  });

  test('is found under a name with spaces, which the kernel writes in octal', () => {
    expect(judge(mounts('/ ext4', '/my\\040data\\134x btrfs'), '/my data\\x/pg')).toBe('yes');
  });

  test('is the one that a bind mount shows, whatever lies around it', () => {
    expect(judge(mounts('/ overlay', '/data btrfs /volumes/pg'), '/data/pg')).toBe('yes');
  });

  test('is not known for a type that nobody has looked at, nor where nothing is mounted', () => {
    expect(judge(mounts('/ ext4', '/data gfs2'), '/data/pg')).toBe('unknown');
    expect(judge('', '/data/pg')).toBe('unknown');
    expect(judge('rubbish\n\n - \n1 2 3', '/data/pg')).toBe('unknown');
    expect(judge(mounts('/ constructor'), '/data/pg')).toBe('unknown');
  });

  test.each(['overlay', 'tmpfs', 'ext4'])(
    '%s accepts the request to clone and copies, so it is not asked',
    (type) => {
      expect(judge(mounts(`/ ${type}`), '/data/pg')).toBe('no');
    },
  );
});

test('of several folders the least able one decides, and all are named', () => {
  const text = mounts('/ ext4', '/fast btrfs', '/slow xfs');
  expect(judgeMounts(text, ['/fast/pg', '/slow/space'])).toEqual({
    canShare: 'perhaps',
    description: 'btrfs and xfs',
    types: ['btrfs', 'xfs'],
  });
  expect(judge(text, '/fast/pg', '/slow/space', '/srv/space')).toBe('no');
});
