-- Version 1: the tables. No later version changes this step. A later version adds a step.

-- What `init` has put here: the version of the tables, and which functions there are; and when `tidy` was done last. Every table has a primary key, because
-- a publication of all tables refuses changes of a table without one.
CREATE TABLE lock_v1.meta (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  version int NOT NULL,
  functions text NOT NULL,
  swept timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO lock_v1.meta (version, functions) VALUES (0, '');

-- One row for each lock. Every change of a lock holds this row, FOR NO KEY UPDATE at least. Rows change often, so they are
-- vacuumed often. No vacuum shortens a table: that would lock all verbs out.
-- The columns from `owner` on are the exclusive lease: the frequent case costs one row.
CREATE TABLE lock_v1.key (
  key bytea PRIMARY KEY,
  last bigint NOT NULL DEFAULT 0,            -- the highest token that was given out
  plain boolean NOT NULL DEFAULT true,       -- no other table has a holder, a waiter or a watcher of the key
  owner text,                                -- '' while a transaction of a user outlives the lease
  first bigint,
  count int,
  ttl int,
  ends timestamptz NOT NULL DEFAULT '-infinity',
  client text NOT NULL DEFAULT ''
) WITH (fillfactor = 50,                      -- so that updates stay on their page
  autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.01, vacuum_truncate = off);

-- The leases that are not exclusive.
CREATE TABLE lock_v1.holder (
  key bytea NOT NULL,
  owner text NOT NULL,
  mode text NOT NULL,                        -- s, u, p:take:of, j:group
  take bigint NOT NULL,
  first bigint NOT NULL,
  count int NOT NULL,
  ttl int NOT NULL,
  ends timestamptz NOT NULL,
  client text NOT NULL,
  PRIMARY KEY (key, owner, mode)
) WITH (fillfactor = 70,
  autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.01, vacuum_truncate = off);

-- The queue. A conversion names in `former` the mode in which its owner holds the key.
CREATE TABLE lock_v1.waiter (
  key bytea NOT NULL,
  pos bigint NOT NULL,
  owner text NOT NULL,
  mode text NOT NULL,
  former text,
  ttl int NOT NULL,
  tokens int NOT NULL,
  value boolean NOT NULL,
  ends timestamptz NOT NULL,
  client text NOT NULL,
  joined timestamptz NOT NULL,
  PRIMARY KEY (key, pos),
  UNIQUE (key, owner, mode)
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.01, vacuum_truncate = off);

-- Which client listens for which key. A crash ends all connections, so it may empty the table.
CREATE UNLOGGED TABLE lock_v1.watcher (
  key bytea NOT NULL,
  client text NOT NULL,
  watch bigint NOT NULL,
  PRIMARY KEY (key, client, watch)
);

CREATE TABLE lock_v1.semaphore (
  key bytea PRIMARY KEY,
  declared bigint[] NOT NULL,                -- the last one first
  permits bigint NOT NULL,
  closed boolean NOT NULL DEFAULT false,
  used timestamptz NOT NULL
);

CREATE TABLE lock_v1.cell (
  key bytea PRIMARY KEY,
  value bytea NOT NULL,
  token bigint NOT NULL,
  writer text NOT NULL
);

-- The highest token that `check` has let through.
CREATE TABLE lock_v1.fence (key bytea PRIMARY KEY, seen bigint NOT NULL) WITH (fillfactor = 50);

CREATE TABLE lock_v1.label (mark text PRIMARY KEY, label text NOT NULL, ends timestamptz NOT NULL);
CREATE INDEX label_ends ON lock_v1.label (ends);

-- All leases, with those that are over and not yet cleared.
CREATE VIEW lock_v1.held AS
  SELECT key, owner, 'x'::text AS mode, 0::bigint AS take, first, count, ttl, ends, client
    FROM lock_v1.key WHERE owner IS NOT NULL
  UNION ALL
  SELECT key, owner, mode, take, first, count, ttl, ends, client FROM lock_v1.holder;

CREATE TYPE lock_v1.answer AS (
  verdict text,                              -- G granted, Q queued, B busy, C closed, N not held
  first bigint,
  count int,
  ttl int,                                   -- of the lease, in milliseconds
  rest bigint,                               -- microseconds: of the lease, or until the caller asks again
  contention text,                           -- c contended, q quiet, u unknown
  at bigint,                                 -- the clock of the server, in microseconds
  has_value boolean,                         -- whether the next three columns say what the holder would load
  value bytea,
  value_token bigint,
  value_held boolean
);
