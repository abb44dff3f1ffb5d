/**
 * What each migration does to large and busy tables that were there before it, written down from reading its SQL: hazards
 * that deserve a warning or an error, as in ../django/labels.ts. Not among them is what goes by measured time or by the rows
 * of one statement alone (LOCK_TABLE, DROP_INDEX_NOT_CONCURRENT, the backfills): both stay small here. An index that
 * IF NOT EXISTS finds is not built. A new column that an index uses, and that has the same value in all rows, lacks statistics. A foreign key whose columns only a partial index begins with has none for its own checks.
 * Codes that are younger than the first run were read afterwards: NEW_COLUMN_REQUIRED, VALUES_CONVERTED, CONSTRAINT_CHANGED, TRIGGER_CHANGED.
 */
const ADD_COLUMN_AND_INDEX = ['INDEX_NOT_CONCURRENT', 'WORK_AFTER_STRONG_LOCK'];
const FILL_AND_SET_NOT_NULL = ['SET_NOT_NULL_SCANS_TABLE', 'WORK_AFTER_STRONG_LOCK'];
const REWRITING_TYPES = ['TYPE_CHANGE_REWRITES', 'COLUMN_RETYPED', 'WORK_AFTER_STRONG_LOCK'];
const FOREIGN_KEY_MADE_AGAIN = ['FOREIGN_KEY_SCANS_TABLE', 'WORK_AFTER_STRONG_LOCK'];

export const LABELS: Readonly<Record<string, readonly string[]>> = {
  // A new column that is UNIQUE, with a CHECK.
  'graphile_worker.000002': ['CONSTRAINT_BUILDS_INDEX', 'CHECK_SCANS_TABLE'],
  // Triggers of the same names get a condition.
  'graphile_worker.000003': ['NOT_NULL_DROPPED', 'TRIGGER_CHANGED'],
  'graphile_worker.000006': ['INDEX_NOT_CONCURRENT'],
  // Locks its tables, changes types, renames them, copies their rows into new ones under the old names, and drops them.
  // Three functions are gone for good.
  'graphile_worker.000011': [
    'TYPE_CHANGE_REWRITES',
    'WORK_AFTER_STRONG_LOCK',
    'TABLE_DROPPED',
    'OBJECT_DROPPED',
  ],
  // Integers do not become smallint by themselves: callers of add_job() fail.
  'graphile_worker.000013': ['OBJECT_DROPPED'],
  'graphile_worker.000016': ['TABLE_RENAMED'],
  // Functions notify instead: an INSERT of somebody else no longer does.
  'graphile_worker.000018': ['TRIGGER_OFF'],
  'medusa_order.Migration20240604100512': ADD_COLUMN_AND_INDEX,
  // Each index is dropped before it is made again.
  'medusa_order.Migration20240715174100': ADD_COLUMN_AND_INDEX,
  // Partial indexes take the place of those that foreign keys used.
  'medusa_order.Migration20240716081800': [...ADD_COLUMN_AND_INDEX, 'FOREIGN_KEY_WITHOUT_INDEX'],
  // To text, and to an enum that has the old one's name: prepared queries know the old one.
  'medusa_order.Migration20240801085921': REWRITING_TYPES,
  'medusa_order.Migration20240821164505': ['INDEX_NOT_CONCURRENT'],
  'medusa_order.Migration20240827133639': [...FILL_AND_SET_NOT_NULL, 'NEW_COLUMN_REQUIRED'],
  'medusa_order.Migration20240913092514': [...FILL_AND_SET_NOT_NULL, 'NEW_COLUMN_REQUIRED'],
  'medusa_order.Migration20241106085223': ADD_COLUMN_AND_INDEX,
  'medusa_order.Migration20241129124827': ADD_COLUMN_AND_INDEX,
  'medusa_order.Migration20250522181137': ['FOREIGN_KEY_SCANS_TABLE', 'FOREIGN_KEY_WITHOUT_INDEX'],
  // Another action on delete under the same name.
  'medusa_order.Migration20250704120229': [...FOREIGN_KEY_MADE_AGAIN, 'CONSTRAINT_CHANGED'],
  // A unique index is made again as a plain one: overlooked when the labels were written, added when the tool told it.
  'medusa_order.Migration20250910130000': [
    ...ADD_COLUMN_AND_INDEX,
    'FOREIGN_KEY_WITHOUT_INDEX',
    'CONSTRAINT_DROPPED',
  ],
  'medusa_order.Migration20251016182939': ['INDEX_NOT_CONCURRENT', ...FILL_AND_SET_NOT_NULL],
  'medusa_order.Migration20251114100559': ADD_COLUMN_AND_INDEX,
  'medusa_order.Migration20251225120947': [...FOREIGN_KEY_MADE_AGAIN, 'CONSTRAINT_CHANGED'],
  'medusa_order.Migration20260106185528': [...ADD_COLUMN_AND_INDEX, 'STATISTICS_MISSING'],
  // Numbers become integers.
  'medusa_product.Migration20240601111544': [...REWRITING_TYPES, 'VALUES_CONVERTED'],
  // CASCADE takes only the dropped table's own constraints along.
  'medusa_product.Migration20241122120331': [
    ...FILL_AND_SET_NOT_NULL,
    'NEW_COLUMN_REQUIRED',
    'FOREIGN_KEY_SCANS_TABLE',
    'FOREIGN_KEY_WITHOUT_INDEX',
    'TABLE_DROPPED',
  ],
  // Its CHECK comes back as it was.
  'medusa_product.Migration20241125090957': [
    'INDEX_NOT_CONCURRENT',
    'CHECK_SCANS_TABLE',
    'SET_NOT_NULL_SCANS_TABLE',
    'VALUES_CONVERTED',
    ...REWRITING_TYPES,
  ],
  'medusa_product.Migration20250411073236': ['INDEX_NOT_CONCURRENT'],
  'medusa_product.Migration20250516081326': ['INDEX_NOT_CONCURRENT'],
  'medusa_product.Migration20250910154539': ['INDEX_NOT_CONCURRENT'],
  'medusa_product.Migration20250911092221': ['INDEX_NOT_CONCURRENT'],
  // The foreign key that it drops is that of the column.
  'medusa_product.Migration20251022153442': ['COLUMN_DROPPED'],
  'medusa_product.Migration20260301002050': REWRITING_TYPES,
  'medusa_product.Migration20260623180000': ['INDEX_NOT_CONCURRENT'],
  'medusa_product.Migration20260730104846': ['INDEX_NOT_CONCURRENT'],
};

/** Migrations without any of it: new tables, functions, columns without work, and what takes only a moment. */
export const HARMLESS: readonly string[] = [
  'graphile_worker.000001',
  'graphile_worker.000004',
  'graphile_worker.000005',
  'graphile_worker.000007',
  'graphile_worker.000008',
  'graphile_worker.000009',
  'graphile_worker.000010',
  'graphile_worker.000012',
  'graphile_worker.000014',
  'graphile_worker.000015',
  'graphile_worker.000017',
  'graphile_worker.000019',
  'graphile_worker.000020',
  'medusa_order.Migration20240219102530',
  'medusa_order.Migration20240715102100',
  'medusa_order.Migration20240821170920',
  'medusa_order.Migration20240902195921',
  'medusa_order.Migration20240930122627',
  'medusa_order.Migration20241014142943',
  'medusa_order.Migration20241217162224',
  'medusa_order.Migration20250326151554',
  'medusa_order.Migration20250702095353',
  'medusa_order.Migration20251016160403',
  // Drops two indexes; those that it would make are there.
  'medusa_order.Migration20251017155709',
  'medusa_order.Migration20251125164002',
  'medusa_order.Migration20251210112909',
  'medusa_order.Migration20251210112924',
  'medusa_order.Migration20260625000000',
  'medusa_order.Migration20260729154253',
  'medusa_product.InitialSetup20240401153642',
  'medusa_product.Migration202408271511',
  'medusa_product.Migration20250929204438',
  'medusa_product.Migration20251008132218',
  'medusa_product.Migration20251011090511',
  'medusa_product.Migration20251029150809',
  // The columns that it would drop are not there.
  'medusa_product.Migration20251110180907',
  'medusa_product.Migration20251113183352',
  'medusa_product.Migration20260224120000',
  'medusa_product.Migration20260306120000',
];
