import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, copyFileSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { skipReason } from './requirements.ts';

/** A certificate and its private key, as files. */
export interface Certificate {
  readonly certificate: string;
  readonly key: string;
}

export interface Subject {
  /** The common name: a role or a host. */
  readonly name: string;
  /** Lines of OpenSSL's extensions. */
  readonly extension?: string;
  /** Default: 2. A negative number makes an expired certificate. */
  readonly days?: number;
  /** Encrypts the key. */
  readonly password?: string;
}

/** A reason to skip tests that make certificates; null if there is none. */
export function opensslObstacle(): string | false {
  try {
    execFileSync('openssl', ['version']);
    return skipReason(null);
  } catch {
    return skipReason('openssl is not installed');
  }
}

/** An authority that signs certificates in a folder. The files belong to the folder's owner, since a server refuses other keys. */
export class Authority implements Certificate {
  readonly certificate: string;
  readonly key: string;
  readonly folder: string;

  constructor(folder: string, name: string, days = 2) {
    this.folder = folder;
    this.certificate = path.join(folder, `${name}.crt`);
    this.key = path.join(folder, `${name}.key`);
    const request = this.#request(name, { name });
    writeFileSync(path.join(folder, `${name}.ext`), 'basicConstraints=critical,CA:true');
    this.#sign(name, request, ['-signkey', this.key], days);
  }

  /** Makes the files `<file>.crt` and `<file>.key`. */
  sign(file: string, subject: Subject): Certificate {
    const request = this.#request(file, subject);
    writeFileSync(path.join(this.folder, `${file}.ext`), subject.extension ?? '');
    const by = ['-CA', this.certificate, '-CAkey', this.key, '-CAcreateserial'];
    this.#sign(file, request, by, subject.days ?? 2);
    return {
      certificate: path.join(this.folder, `${file}.crt`),
      key: path.join(this.folder, `${file}.key`),
    };
  }

  /** Writes the list `ca.crl`, and the same in the folder `revoked`, with this certificate in it. */
  revoke(file: string): void {
    const here = (name: string) => path.join(this.folder, name);
    writeFileSync(here('index.txt'), '');
    writeFileSync(here('ca.conf'), '[ca]\ndatabase=index.txt\ndefault_md=sha256\ndefault_crl_days=2\n');
    const by = ['ca', '-config', 'ca.conf', '-name', 'ca', '-cert', this.certificate, '-keyfile', this.key];
    this.#openssl(...by, '-revoke', `${file}.crt`);
    this.#openssl(...by, '-gencrl', '-out', 'ca.crl');
    mkdirSync(here('revoked'));
    copyFileSync(here('ca.crl'), here('revoked/ca.r0'));
  }

  #request(file: string, { name, password }: Subject): string {
    const [key, request] = [`${file}.key`, `${file}.csr`];
    const secrecy = password === undefined ? ['-nodes'] : ['-passout', `pass:${password}`];
    const words = ['req', '-new', '-newkey', 'rsa:2048', ...secrecy, '-keyout', key, '-out', request];
    this.#openssl(...words, '-subj', `/CN=${name}`);
    const { uid, gid } = statSync(this.folder);
    chmodSync(path.join(this.folder, key), 0o600);
    chownSync(path.join(this.folder, key), uid, gid);
    return request;
  }

  #sign(file: string, request: string, by: readonly string[], days: number): void {
    const words = ['x509', '-req', '-in', request, ...by, '-days', String(days)];
    this.#openssl(...words, '-extfile', `${file}.ext`, '-out', `${file}.crt`);
  }

  #openssl(...words: string[]): void {
    execFileSync('openssl', words, { cwd: this.folder, stdio: 'pipe' });
  }
}
