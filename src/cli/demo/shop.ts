/** The demo's database: a small shop with enough rows that a rewrite and a backfill can be seen. */
export const SHOP = `
CREATE TYPE order_status AS ENUM ('open', 'paid', 'shipped');
CREATE TABLE customers (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL,
  mail text,
  legacy_code text
);
CREATE TABLE orders (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  customer_id bigint NOT NULL REFERENCES customers,
  status order_status NOT NULL DEFAULT 'open',
  total integer NOT NULL,
  placed_at timestamptz NOT NULL DEFAULT now()
);
CREATE VIEW open_orders AS SELECT id, customer_id, total FROM orders WHERE status = 'open';
INSERT INTO customers (name, mail, legacy_code)
  SELECT 'customer ' || n, 'c' || n || '@example.org', md5(n::text) FROM generate_series(1, 20000) n;
INSERT INTO orders (customer_id, status, total)
  SELECT 1 + n % 20000, (ARRAY['open', 'paid', 'shipped']::order_status[])[1 + n % 3], n % 500
    FROM generate_series(1, 100000) n;
CREATE TABLE schema_migrations (name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now());
ANALYZE;`;

/** The demo's migrations by their names: one file a step, each in its own transaction. */
export const MIGRATIONS: Readonly<Record<string, string>> = {
  '001_rename_mail': 'ALTER TABLE customers RENAME COLUMN mail TO email;\n',
  '002_totals_in_cents': `ALTER TABLE orders ADD COLUMN total_cents bigint;
UPDATE orders SET total_cents = total * 100 WHERE status <> 'shipped';
ALTER TABLE orders ADD CONSTRAINT total_cents_positive CHECK (total_cents >= 0) NOT VALID;
`,
  '003_index_orders': 'CREATE INDEX orders_customer_id_idx ON orders (customer_id);\n',
  '004_drop_legacy_code': 'ALTER TABLE customers DROP COLUMN legacy_code;\n',
};

/** The last migration that passes; the next one must be stopped. */
export const LAST_SAFE = '003_index_orders';
