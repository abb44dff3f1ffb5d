// Prints, as JSON, the SQL of the migrations that npm packages ship, in their order. Its argument is the folder in which the
// packages lie. What is a string in them is taken as it stands; the framework that would send it is not installed.
import { readdirSync, readFileSync } from 'node:fs';
import Module, { createRequire } from 'node:module';
import path from 'node:path';
import { parse } from 'libpg-query';

const folder = path.resolve(process.argv[2]);
const require = createRequire(import.meta.url);

const migrations = [...(await graphileWorker()), ...(await medusa('order')), ...(await medusa('product'))];
process.stdout.write(JSON.stringify(migrations));

async function graphileWorker() {
  const files = path.join(folder, 'graphile-worker', 'sql');
  return await Promise.all(
    readdirSync(files)
      .sort()
      .map(async (file) => ({
        name: `graphile_worker.${path.basename(file, '.sql')}`,
        atomic: true,
        statements: await statementsOf(
          readFileSync(path.join(files, file), 'utf8').replaceAll(':GRAPHILE_WORKER_SCHEMA', 'public'),
        ),
      })),
  );
}

async function medusa(part) {
  const sent = [];
  class Migration {
    addSql(sql) {
      sent.push(sql);
    }
    /** It asks whether there is an older schema. */
    execute() {
      return [];
    }
  }
  const standIns = {
    '@mikro-orm/migrations': { Migration },
    '@medusajs/framework/mikro-orm/migrations': { Migration },
    '@medusajs/framework/utils': { generatePostgresAlterColummnIfExistStatement: alterColumnsThatExist },
  };
  const load = Module._load;
  Module._load = (request, ...others) => standIns[request] ?? load(request, ...others);

  const files = path.join(folder, `medusajs-${part}`, 'dist/migrations');
  const found = [];
  for (const file of readdirSync(files).sort(byNumber)) {
    if (!file.endsWith('.js')) continue;
    const [Shipped] = Object.values(require(path.join(files, file)));
    sent.length = 0;
    await new Shipped().up();
    const statements = (await Promise.all(sent.map(statementsOf))).flat();
    found.push({ name: `medusa_${part}.${path.basename(file, '.js')}`, atomic: true, statements });
  }
  return found;
}

function alterColumnsThatExist(table, columns, change) {
  const each = columns.map(
    (column) => `IF EXISTS (SELECT FROM information_schema.columns
        WHERE table_name = '${table}' AND column_name = '${column}') THEN
      ALTER TABLE "${table}" ALTER COLUMN "${column}" ${change};
    END IF;`,
  );
  return `DO $$ BEGIN ${each.join('\n')} END $$;`;
}

async function statementsOf(text) {
  const bytes = Buffer.from(text);
  const { stmts = [] } = await parse(text);
  return stmts.map(({ stmt_location: from = 0, stmt_len: length }) =>
    withoutComments(bytes.subarray(from, length ? from + length : undefined).toString()),
  );
}

/** What stands before a statement belongs to it, for the parser. */
function withoutComments(sql) {
  return sql.replace(/^(?:\s|--[^\n]*(?:\n|$)|\/\*[\s\S]*?\*\/)+/, '').trim();
}

/** The names end in the time when they were made. */
function byNumber(one, other) {
  const [a, b] = [one, other].map((file) => Number((/\d+/.exec(file)?.[0] ?? '').padEnd(14, '0')));
  return a - b;
}
