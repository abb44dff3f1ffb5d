import { type FileHandle, open, rm, stat } from 'node:fs/promises';
import path from 'node:path';

/** Files of a relation that holds nothing but its first block. */
export interface SparseRelation {
  /** Value that `pg_class.relfilenode` needs for the server to find them. */
  readonly node: number;
  remove(): Promise<void>;
}

/** Far above what a server gives out; counted downwards. */
const HIGHEST_NODE = 4_294_967_000;
const TRIES = 1000;

/**
 * Makes new files beside those of a relation, as large as is asked for and without content, so that they take no space. No file that
 * was there is opened for writing. They belong to whom the relation's file belongs to.
 * @param file the relation's own, of which the first block is copied: the planner reads the height of an index there.
 * @param size in all, and of a segment file.
 */
export async function makeSparseRelation(
  file: string,
  size: { readonly blockBytes: number; readonly blocks: number; readonly blocksOfSegment: number },
): Promise<SparseRelation> {
  const { uid, gid } = await stat(file);
  const head = await firstBlock(file, size.blockBytes);
  const made: string[] = [];
  const remove = async () => {
    for (const each of made) await rm(each, { force: true });
  };
  const fill = async (handle: FileHandle, blocks: number, content: Buffer) => {
    try {
      await handle.write(content);
      await handle.truncate(blocks * size.blockBytes);
      if (process.getuid?.() === 0) await handle.chown(uid, gid);
    } finally {
      await handle.close();
    }
  };
  try {
    const { node, handle } = await newNode(path.dirname(file));
    const first = path.join(path.dirname(file), String(node));
    made.push(first);
    await fill(handle, Math.min(size.blocks, size.blocksOfSegment), head);
    for (let at = 1; at * size.blocksOfSegment < size.blocks; at++) {
      const segment = `${first}.${at}`;
      const further = await open(segment, 'wx', 0o600);
      made.push(segment);
      const left = size.blocks - at * size.blocksOfSegment;
      await fill(further, Math.min(left, size.blocksOfSegment), Buffer.alloc(0));
    }
    return { node, remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** Says whether the server has written a relation's first block, or still holds it in memory alone. */
export async function isWritten(file: string, blockBytes: number): Promise<boolean> {
  return (await firstBlock(file, blockBytes)).some((byte) => byte !== 0);
}

async function firstBlock(file: string, blockBytes: number): Promise<Buffer> {
  const handle = await open(file, 'r');
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(blockBytes), 0, blockBytes, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

async function newNode(folder: string): Promise<{ node: number; handle: FileHandle }> {
  for (let node = HIGHEST_NODE; node > HIGHEST_NODE - TRIES; node--) {
    const handle = await open(path.join(folder, String(node)), 'wx', 0o600).catch((error) => {
      if (error.code === 'EEXIST') return null;
      throw error;
    });
    if (handle) return { node, handle };
  }
  throw new Error(`no number is free for a new file in ${folder}`);
}
