-- Generated from the folder `src/schema` of the crate lock-postgres. Do not edit this.
BEGIN;
SELECT pg_advisory_xact_lock(5495592372081329);
SET LOCAL search_path = pg_catalog, pg_temp;
CREATE SCHEMA lock_v1;
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

-- Version 2: what a database remembers as a node of a quorum.

-- The quorum whose node this is, and the longest lease that a client named. Each table has one row at most.
CREATE TABLE lock_v1.node (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  members text NOT NULL,
  longest bigint NOT NULL                    -- in milliseconds
);

-- Whether the node may have forgotten votes. A crash and a promotion empty the table, because both may forget what was
-- committed last. So a vote need not wait for the disk. A copy of the row counts nowhere else: a dump has it, and a database
-- that was restored from a dump has forgotten votes.
CREATE UNLOGGED TABLE lock_v1.standing (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  started timestamptz NOT NULL,              -- when the run of the server began that made this row
  place text NOT NULL,                       -- the database and the file in which this row was made
  server text NOT NULL,
  quarantine text NOT NULL,
  most bigint,                               -- the longest lease that was vouched for; NULL in quarantine
  begun timestamptz                          -- of the quarantine; NULL if no clock may end it
);

-- Version 3: the tokens of a lease that was exclusive. Its renewals may have brought some, and these may lie far apart.

-- A sweep locks the row of this table first, and then reads the others.
LOCK TABLE lock_v1.meta IN ACCESS EXCLUSIVE MODE;

-- The highest token of such a lease. NULL if the lease never was exclusive.
ALTER TABLE lock_v1.holder ADD COLUMN upto bigint;

-- Version 4: how far a sweep has come, so that each step of it is short.

-- The last key of the step before; NULL between two sweeps. During a sweep, `swept` is the time of that step.
ALTER TABLE lock_v1.meta ADD COLUMN reached bytea;

-- It looked at all keys.
DROP FUNCTION IF EXISTS lock_v1.unused(timestamptz);

-- How locks decide. The functions here are for the verbs alone, which hold the row of the key. Each verb reads the
-- clock once, after it has the row, and hands the reading on: two readings in one verb would disagree.

-- What a client may send. A role that may call the verbs may send anything.
CREATE OR REPLACE FUNCTION lock_v1.is_owner(o text) RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT o ~ '^[0-9a-f]{32}$' $$;

CREATE OR REPLACE FUNCTION lock_v1.is_mode(m text) RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT m ~ '^(?:[xsu]|p:[0-9]{1,10}:[0-9]{1,10}|j:[0-9a-f]{32})$' $$;

CREATE OR REPLACE FUNCTION lock_v1.is_client(c text) RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT c ~ '^(?:[0-9a-f]{32})?$' $$;

-- A lease lasts a day at most.
CREATE OR REPLACE FUNCTION lock_v1.is_request(o text, m text, t int, n int) RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT lock_v1.is_owner(o) AND lock_v1.is_mode(m) AND t BETWEEN 1 AND 86400000 AND n > 0 $$;

CREATE OR REPLACE FUNCTION lock_v1.insist(is_right boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF is_right IS NOT TRUE THEN
    RAISE EXCEPTION 'the database was asked for what no client sends' USING ERRCODE = 'LK007';
  END IF;
END $$;

CREATE OR REPLACE FUNCTION lock_v1.ms(n bigint) RETURNS interval LANGUAGE sql IMMUTABLE AS
$$ SELECT n * interval '1 millisecond' $$;

CREATE OR REPLACE FUNCTION lock_v1.us(i interval) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT (extract(epoch FROM i) * 1000000)::bigint $$;

-- The lowest token at a time: quarters of a microsecond since 2020. It is STABLE, as `extract` is. An IMMUTABLE function around
-- it would not become a part of the expression that calls it, but a query that is planned for each grant.
CREATE OR REPLACE FUNCTION lock_v1.floor(at timestamptz) RETURNS bigint LANGUAGE sql STABLE AS
$$ SELECT (extract(epoch FROM at) * 4000000)::bigint - 6311347200000000 $$;

-- A client is there while its listening connection holds this advisory lock. The lock of a client that is gone is given back
-- at once: a transaction that meets many such clients would fill the table of locks of the server.
CREATE OR REPLACE FUNCTION lock_v1.is_there(c text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE id bigint := ('x' || substr(c, 1, 16))::bit(64)::bigint;
BEGIN
  RETURN CASE WHEN pg_try_advisory_lock_shared(id) THEN NOT pg_advisory_unlock_shared(id) ELSE true END;
END $$;

-- Whether a client hears news of a key.
CREATE OR REPLACE FUNCTION lock_v1.reach(k bytea, c text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN c <> '' AND EXISTS (SELECT FROM lock_v1.watcher WHERE key = k AND client = c) AND lock_v1.is_there(c);
END $$;

CREATE OR REPLACE FUNCTION lock_v1.tell(c text, what text, k bytea, rest text) RETURNS void LANGUAGE sql VOLATILE AS
$$ SELECT pg_notify('lock_' || c, what || ' ' || encode(k, 'hex') || rest) $$;

-- Tells every client that watches the key. Returns how many others than the sender there are.
CREATE OR REPLACE FUNCTION lock_v1.tell_all(k bytea, what text, sender text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE others int := 0; c text;
BEGIN
  FOR c IN SELECT DISTINCT client FROM lock_v1.watcher WHERE key = k LOOP
    IF lock_v1.is_there(c) THEN
      PERFORM lock_v1.tell(c, what, k, '');
      others := others + (c <> sender)::int;
    ELSE
      DELETE FROM lock_v1.watcher WHERE key = k AND client = c;
    END IF;
  END LOOP;
  RETURN others;
END $$;

-- Raises an exception unless each statement sees what was committed before it. At a higher level, a verb would decide by
-- the rows that there were before it had the row of the key: it would miss holders and waiters of other tables.
CREATE OR REPLACE FUNCTION lock_v1.check_level() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'locks need transactions that are read committed, and this one is %: set default_transaction_isolation for the role',
      current_setting('transaction_isolation') USING ERRCODE = 'LK006';
  END IF;
END $$;

-- Takes the row of a key. Returns whether there is one. Through a pooler, no client can set how long that may take.
CREATE OR REPLACE FUNCTION lock_v1.hold(k bytea) RETURNS boolean LANGUAGE plpgsql SET lock_timeout = '2500ms' AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN PERFORM lock_v1.check_level(); END IF;
  PERFORM FROM lock_v1.key WHERE key = k FOR NO KEY UPDATE;
  RETURN FOUND;
END $$;

-- Takes the row of a key, which may be new. A name has 512 bytes at most, behind one that says what it names.
CREATE OR REPLACE FUNCTION lock_v1.enter(k bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  WHILE NOT lock_v1.hold(k) LOOP
    PERFORM lock_v1.insist(octet_length(k) BETWEEN 1 AND 513);
    INSERT INTO lock_v1.key (key) VALUES (k) ON CONFLICT DO NOTHING;
  END LOOP;
END $$;

-- Notes whether the other tables have rows of the key.
CREATE OR REPLACE FUNCTION lock_v1.settle(k bytea) RETURNS void LANGUAGE plpgsql AS $$
DECLARE alone boolean := NOT EXISTS (SELECT FROM lock_v1.holder WHERE key = k)
  AND NOT EXISTS (SELECT FROM lock_v1.waiter WHERE key = k)
  AND NOT EXISTS (SELECT FROM lock_v1.watcher WHERE key = k);
BEGIN
  UPDATE lock_v1.key SET plain = alone WHERE key = k AND plain <> alone;
END $$;

-- A request can reach the row of its key late: its server stood still, say. If its client has given up the request by then, a
-- release may have been made, which has found nothing. So the client says on the clock of the server until when it waits.
CREATE OR REPLACE FUNCTION lock_v1.is_late(late timestamptz) RETURNS boolean LANGUAGE sql VOLATILE AS
$$ SELECT clock_timestamp() > late $$;

-- For a verb that has the row of its key.
CREATE OR REPLACE FUNCTION lock_v1.be_in_time(late timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF lock_v1.is_late(late) THEN
    RAISE EXCEPTION 'the request came later than its client waits' USING ERRCODE = 'LK008';
  END IF;
END $$;

-- Removes the leases that are over. A lease that an open transaction has checked cannot be removed: its row is locked FOR
-- KEY SHARE. Such a lease goes on being held, by no owner, and its end is a moment ahead. Returns whether there is one.
--
-- Every grant comes after this, in its transaction, and changes the row that is locked FOR UPDATE here. The order matters: a
-- check that begins before the grant is committed may see the former version of the row, and FOR KEY SHARE takes that version
-- unless the transaction that changed it had locked the very same version FOR UPDATE.
CREATE OR REPLACE FUNCTION lock_v1.clear(k bytea, now timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE pinned boolean := false;
BEGIN
  IF NOT EXISTS (SELECT FROM lock_v1.key WHERE key = k AND owner IS NOT NULL AND ends > now) THEN
    PERFORM FROM lock_v1.key WHERE key = k FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      UPDATE lock_v1.key SET owner = NULL, client = '' WHERE key = k AND owner IS NOT NULL;
    ELSE
      UPDATE lock_v1.key SET owner = '', client = '', ttl = 50, ends = now + lock_v1.ms(50) WHERE key = k;
      pinned := true;
    END IF;
  END IF;
  DELETE FROM lock_v1.holder WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM lock_v1.holder WHERE key = k AND ends <= now FOR UPDATE SKIP LOCKED));
  RETURN pinned OR EXISTS (SELECT FROM lock_v1.holder WHERE key = k AND ends <= now);
END $$;

-- The end of a lease, as far as others can rely on it.
CREATE OR REPLACE FUNCTION lock_v1.over(ends timestamptz, now timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN ends > now THEN ends ELSE now + interval '50 milliseconds' END $$;

CREATE OR REPLACE FUNCTION lock_v1.has(k bytea, o text, m text, now timestamptz) RETURNS boolean LANGUAGE sql STABLE AS
$$ SELECT EXISTS (SELECT FROM lock_v1.held WHERE key = k AND owner = o AND mode = m AND ends > now) $$;

-- The algebra of modes: whether two owners may hold leases in these modes at once.
CREATE OR REPLACE FUNCTION lock_v1.fits(one text, other text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE left(one, 1) || left(other, 1)
    WHEN 'ss' THEN true WHEN 'su' THEN true WHEN 'us' THEN true WHEN 'pp' THEN true
    WHEN 'jj' THEN one = other ELSE false END
$$;

CREATE OR REPLACE FUNCTION lock_v1.take(m text) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN left(m, 1) = 'p' THEN split_part(m, ':', 2)::bigint ELSE 0 END $$;

-- When there is room for a lease in this mode: -infinity if now, infinity if time alone does not make room.
CREATE OR REPLACE FUNCTION lock_v1.room(k bytea, m text, now timestamptz) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE fit boolean; counted boolean; used bigint; until timestamptz; most bigint; more bigint := lock_v1.take(m);
BEGIN
  SELECT coalesce(bool_and(lock_v1.fits(mode, m)), true), coalesce(bool_and(left(mode, 1) = 'p'), true),
      coalesce(sum(take), 0), coalesce(max(lock_v1.over(ends, now)), 'infinity')
    INTO fit, counted, used, until FROM lock_v1.held WHERE key = k;
  IF left(m, 1) <> 'p' THEN RETURN CASE WHEN fit THEN '-infinity' ELSE until END; END IF;
  SELECT permits INTO most FROM lock_v1.semaphore WHERE key = k;
  most := coalesce(most, 0);
  IF fit AND used + more <= most THEN RETURN '-infinity'; END IF;
  IF NOT counted THEN RETURN until; END IF;
  SELECT min(e) INTO until FROM (
    SELECT lock_v1.over(ends, now) AS e, sum(take) OVER (ORDER BY ends, owner, mode) AS freed
      FROM lock_v1.held WHERE key = k) x
    WHERE used + more - freed <= most;
  RETURN coalesce(until, 'infinity');
END $$;

-- Tokens that were never given out: as many as wanted, or one if so many would run a second ahead of the clock.
CREATE OR REPLACE FUNCTION lock_v1.reserve(k bytea, n int, now timestamptz, OUT first bigint, OUT count int)
LANGUAGE plpgsql AS $$
DECLARE f bigint := lock_v1.floor(now); highest bigint;
BEGIN
  SELECT x.last INTO highest FROM lock_v1.key x WHERE x.key = k;
  first := greatest(highest + 1, f);
  count := CASE WHEN first + n - 1 > f + 4000000 THEN 1 ELSE n END;
  highest := first + count - 1;
  UPDATE lock_v1.key x SET last = highest WHERE x.key = k;
END $$;

-- Writes a lease with tokens that its owner has.
CREATE OR REPLACE FUNCTION lock_v1.turn(k bytea, o text, m text, one bigint, many int, t int, until timestamptz, c text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF m = 'x' THEN
    UPDATE lock_v1.key SET owner = o, first = one, count = many, ttl = t, ends = until, client = c WHERE key = k;
  ELSE
    INSERT INTO lock_v1.holder VALUES (k, o, m, lock_v1.take(m), one, many, t, until, c)
      ON CONFLICT (key, owner, mode) DO UPDATE SET first = one, count = many, upto = NULL, ttl = t, ends = until, client = c;
  END IF;
END $$;

-- Writes a lease, with new tokens or with those of its group.
CREATE OR REPLACE FUNCTION lock_v1.put(k bytea, o text, m text, t int, n int, until timestamptz, c text, now timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE one bigint; many int;
BEGIN
  IF left(m, 1) = 'j' THEN
    SELECT first, count INTO one, many FROM lock_v1.holder WHERE key = k AND mode = m LIMIT 1;
  END IF;
  IF one IS NULL THEN SELECT * INTO one, many FROM lock_v1.reserve(k, n, now); END IF;
  PERFORM lock_v1.turn(k, o, m, one, many, t, until, c);
END $$;

-- Ends a lease, if it is held. `clear` removes it.
CREATE OR REPLACE FUNCTION lock_v1.drop_lease(k bytea, o text, m text, now timestamptz) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  IF m = 'x' THEN
    UPDATE lock_v1.key SET owner = NULL, ends = '-infinity' WHERE key = k AND owner = o AND ends > now;
  ELSE
    UPDATE lock_v1.holder SET ends = '-infinity' WHERE key = k AND owner = o AND mode = m AND ends > now;
  END IF;
  RETURN FOUND;
END $$;

CREATE OR REPLACE FUNCTION lock_v1.contention(k bytea, c text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM lock_v1.waiter WHERE key = k) THEN RETURN 'c'; END IF;
  RETURN CASE WHEN lock_v1.reach(k, c) THEN 'q' ELSE 'u' END;
END $$;

-- The time from now to the first end of a lease; NULL if there is none.
CREATE OR REPLACE FUNCTION lock_v1.first_end(k bytea, now timestamptz) RETURNS bigint LANGUAGE sql STABLE AS
$$ SELECT lock_v1.us(min(lock_v1.over(ends, now)) - now) FROM lock_v1.held WHERE key = k $$;

-- How a key passes to its waiters.

-- Writes the lease of a waiter. It lives until its owner has had time to renew it, or for the time that is left of the
-- lease that it replaces.
CREATE OR REPLACE FUNCTION lock_v1.hand_over(w lock_v1.waiter, now timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE t int := least(w.ttl, 1000); until timestamptz := now + lock_v1.ms(t); h record;
BEGIN
  IF w.former IS NOT NULL THEN
    SELECT ttl, ends INTO h FROM lock_v1.held WHERE key = w.key AND owner = w.owner AND mode = w.former;
    IF h.ends > until THEN t := h.ttl; until := h.ends; END IF;
    PERFORM lock_v1.drop_lease(w.key, w.owner, w.former, now);
    PERFORM lock_v1.clear(w.key, now);
  END IF;
  PERFORM lock_v1.put(w.key, w.owner, w.mode, t, w.tokens, until, w.client, now);
END $$;

-- The place that is served next, taken out of the queue; NULL if there is none. Places that are over are dropped.
CREATE OR REPLACE FUNCTION lock_v1.take_next(k bytea, now timestamptz) RETURNS lock_v1.waiter LANGUAGE plpgsql AS $$
DECLARE w lock_v1.waiter; served boolean;
BEGIN
  LOOP
    SELECT * INTO w FROM lock_v1.waiter WHERE key = k ORDER BY pos LIMIT 1;
    IF NOT FOUND THEN RETURN NULL; END IF;
    EXIT WHEN w.ends > now AND (w.former IS NULL OR lock_v1.has(k, w.owner, w.former, now));
    DELETE FROM lock_v1.waiter WHERE key = k AND pos = w.pos;
  END LOOP;
  IF EXISTS (SELECT FROM lock_v1.holder WHERE key = k AND mode LIKE 'j%') THEN
    -- A member of the group that holds the key is served at any position.
    DELETE FROM lock_v1.waiter WHERE (key, pos) = (
      SELECT x.key, x.pos FROM lock_v1.waiter x JOIN lock_v1.holder h ON h.key = x.key AND h.mode = x.mode
        WHERE x.key = k AND x.ends > now AND h.mode LIKE 'j%' ORDER BY x.pos LIMIT 1) RETURNING * INTO w;
    RETURN w;
  END IF;
  IF w.former IS NULL THEN
    served := lock_v1.room(k, w.mode, now) = '-infinity';
  ELSE
    served := NOT EXISTS (SELECT FROM lock_v1.held WHERE key = k AND (owner, mode) <> (w.owner, w.former));
  END IF;
  IF NOT served THEN RETURN NULL; END IF;
  DELETE FROM lock_v1.waiter WHERE key = k AND pos = w.pos;
  RETURN w;
END $$;

-- Tells the first claim in the queue when its turn could come.
CREATE OR REPLACE FUNCTION lock_v1.tell_next(k bytea, o text, m text, now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE w lock_v1.waiter; after bigint := lock_v1.first_end(k, now);
BEGIN
  FOR w IN SELECT * FROM lock_v1.waiter WHERE key = k ORDER BY pos LOOP
    EXIT WHEN w.owner = o AND w.mode = m;
    IF lock_v1.reach(k, w.client) THEN
      IF after IS NOT NULL THEN PERFORM lock_v1.tell(w.client, 'N', k, format(' %s %s', w.owner, after)); END IF;
      RETURN;
    END IF;
  END LOOP;
END $$;

-- Hands the key to the claims at the head of the queue, as long as there is room for the first one. Tells each of them, and
-- the claim that is next. Only the asker gets no hint, because it gets an answer. Returns how many were served.
CREATE OR REPLACE FUNCTION lock_v1.serve(k bytea, o text, m text, now timestamptz) RETURNS int LANGUAGE plpgsql AS $$
DECLARE w lock_v1.waiter; h record; told lock_v1.waiter[] := '{}'; served int := 0; pinned boolean;
BEGIN
  pinned := lock_v1.clear(k, now);
  LOOP
    w := lock_v1.take_next(k, now);
    EXIT WHEN w.pos IS NULL;
    CONTINUE WHEN NOT (w.owner = o AND w.mode = m) AND NOT lock_v1.reach(k, w.client);
    PERFORM lock_v1.hand_over(w, now);
    served := served + 1;
    IF NOT (w.owner = o AND w.mode = m) THEN told := told || w; END IF;
  END LOOP;
  FOREACH w IN ARRAY told LOOP
    SELECT * INTO h FROM lock_v1.held WHERE key = k AND owner = w.owner AND mode = w.mode;
    PERFORM lock_v1.tell(w.client, 'G', k, format(' %s %s %s %s %s %s %s', w.owner, h.first, h.count, h.ttl,
      lock_v1.us(h.ends - now), lock_v1.us(now - 'epoch'), lock_v1.contention(k, w.client)));
  END LOOP;
  IF pinned OR cardinality(told) > 0 THEN PERFORM lock_v1.tell_next(k, o, m, now); END IF;
  RETURN served;
END $$;

-- Keeps or makes a place. A new place is at the end of the queue, that of a conversion at its head. Returns whether it is new.
CREATE OR REPLACE FUNCTION lock_v1.join(k bytea, o text, m text, f text, t int, n int, v boolean, c text, most int,
  now timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE until timestamptz := now + lock_v1.ms(greatest(t, 3000)); lo bigint; hi bigint;
BEGIN
  UPDATE lock_v1.waiter SET ttl = t, tokens = n, value = v, ends = until, client = c
    WHERE key = k AND owner = o AND mode = m AND former IS NOT DISTINCT FROM f;
  IF FOUND THEN RETURN false; END IF;
  DELETE FROM lock_v1.waiter WHERE key = k AND owner = o AND mode = m;
  SELECT min(pos), max(pos) INTO lo, hi FROM lock_v1.waiter WHERE key = k;
  IF hi - lo + 1 >= most AND (SELECT count(*) FROM lock_v1.waiter WHERE key = k) >= most THEN
    DELETE FROM lock_v1.waiter WHERE key = k AND (ends <= now OR NOT lock_v1.is_there(client));
    IF (SELECT count(*) FROM lock_v1.waiter WHERE key = k) >= most THEN
      RAISE EXCEPTION 'the queue for this key is full: % requests wait already', most USING ERRCODE = 'LK002';
    END IF;
  END IF;
  INSERT INTO lock_v1.waiter VALUES (k, CASE WHEN f IS NULL THEN coalesce(hi, 0) + 1 ELSE coalesce(lo, 1) - 1 END,
    o, m, f, t, n, v, until, c, now);
  RETURN true;
END $$;

-- Semaphores.

CREATE OR REPLACE FUNCTION lock_v1.is_number(n bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT n BETWEEN 0 AND 4294967295 $$;

-- The semaphore that a client declares to have `n` permits. The first client declares the number. An unchanged number is
-- forgotten an hour after its last use.
CREATE OR REPLACE FUNCTION lock_v1.known(k bytea, n bigint, now timestamptz) RETURNS lock_v1.semaphore
LANGUAGE plpgsql AS $$
DECLARE s lock_v1.semaphore;
BEGIN
  DELETE FROM lock_v1.semaphore WHERE key = k AND permits = declared[1] AND NOT closed AND used + interval '1 hour' <= now;
  INSERT INTO lock_v1.semaphore VALUES (k, ARRAY[n], n, false, now) ON CONFLICT DO NOTHING;
  SELECT * INTO s FROM lock_v1.semaphore WHERE key = k;
  RETURN s;
END $$;

CREATE OR REPLACE FUNCTION lock_v1.declare(k bytea, n bigint, until timestamptz, now timestamptz)
RETURNS lock_v1.semaphore LANGUAGE plpgsql AS $$
DECLARE s lock_v1.semaphore := lock_v1.known(k, n, now);
BEGIN
  IF NOT n = ANY (s.declared) THEN
    RAISE EXCEPTION 'this semaphore was declared with % permits, and now with %', s.declared[1], n USING ERRCODE = 'LK003';
  END IF;
  UPDATE lock_v1.semaphore SET used = greatest(used, until) WHERE key = k;
  RETURN s;
END $$;

CREATE OR REPLACE FUNCTION lock_v1.declare_for(k bytea, m text, t int, now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF m LIKE 'p%' THEN
    PERFORM lock_v1.declare(k, split_part(m, ':', 3)::bigint, now + lock_v1.ms(greatest(t, 3000)), now);
  END IF;
END $$;

CREATE OR REPLACE FUNCTION lock_v1.is_closed(k bytea, m text) RETURNS boolean LANGUAGE sql STABLE AS
$$ SELECT m LIKE 'p%' AND EXISTS (SELECT FROM lock_v1.semaphore WHERE key = k AND closed) $$;

CREATE OR REPLACE FUNCTION lock_v1.check_kind(k bytea, now timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM lock_v1.clear(k, now);
  IF EXISTS (SELECT FROM lock_v1.held WHERE key = k AND mode NOT LIKE 'p%') THEN
    RAISE EXCEPTION 'the key is held as another kind of lock' USING ERRCODE = 'LK005';
  END IF;
END $$;

CREATE OR REPLACE FUNCTION lock_v1.count(k bytea, now timestamptz, OUT permits bigint, OUT held bigint, OUT waiting bigint,
  OUT closed boolean) LANGUAGE plpgsql AS $$
BEGIN
  SELECT s.permits, s.closed INTO permits, closed FROM lock_v1.semaphore s WHERE s.key = k;
  SELECT coalesce(sum(h.take), 0) INTO held FROM lock_v1.held h WHERE h.key = k;
  SELECT count(*) INTO waiting FROM lock_v1.waiter w WHERE w.key = k AND w.ends > now;
END $$;

CREATE OR REPLACE FUNCTION lock_v1.permits(k bytea, n bigint, OUT permits bigint, OUT held bigint, OUT waiting bigint,
  OUT closed boolean) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz;
BEGIN
  PERFORM lock_v1.insist(lock_v1.is_number(n));
  PERFORM lock_v1.enter(k);
  now := clock_timestamp();
  PERFORM lock_v1.check_kind(k, now);
  PERFORM lock_v1.declare(k, n, now, now);
  SELECT * INTO permits, held, waiting, closed FROM lock_v1.count(k, now);
  PERFORM lock_v1.settle(k);
END $$;

-- Adds permits (what = a), removes free ones (r), or declares the number anew (d).
CREATE OR REPLACE FUNCTION lock_v1.resize(k bytea, n bigint, what text, many bigint, c text, OUT permits bigint,
  OUT held bigint, OUT waiting bigint, OUT closed boolean, OUT changed bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz; s lock_v1.semaphore; before bigint; after bigint; x record;
BEGIN
  PERFORM lock_v1.insist(lock_v1.is_number(n) AND lock_v1.is_number(many) AND what IN ('a', 'r', 'd'));
  PERFORM lock_v1.enter(k);
  now := clock_timestamp();
  PERFORM lock_v1.check_kind(k, now);
  s := lock_v1.known(k, n, now);
  before := s.permits;
  IF what = 'd' AND s.declared[1] <> n THEN
    UPDATE lock_v1.semaphore y SET permits = n, declared = (n || array_remove(y.declared, n))[1:8] WHERE y.key = k;
  END IF;
  PERFORM lock_v1.declare(k, n, now, now);
  SELECT * INTO x FROM lock_v1.count(k, now);
  IF what = 'a' THEN
    IF x.permits + many > 4294967295 THEN
      RAISE EXCEPTION '% permits and the % there are would be too many', many, x.permits USING ERRCODE = 'LK003';
    END IF;
    UPDATE lock_v1.semaphore y SET permits = y.permits + many WHERE y.key = k;
  ELSIF what = 'r' AND x.waiting = 0 THEN
    UPDATE lock_v1.semaphore y SET permits = y.permits - least(many, greatest(0, x.permits - x.held)) WHERE y.key = k;
  END IF;
  SELECT y.permits INTO after FROM lock_v1.semaphore y WHERE y.key = k;
  IF after > before OR what = 'a' THEN PERFORM lock_v1.tell_all(k, 'R', c); END IF;
  PERFORM lock_v1.serve(k, '', '', now);
  PERFORM lock_v1.settle(k);
  SELECT * INTO permits, held, waiting, closed FROM lock_v1.count(k, now);
  changed := abs(after - before);
END $$;

-- Ends a lease as a release does, but its permits do not come back.
CREATE OR REPLACE FUNCTION lock_v1.forget(k bytea, o text, m text, c text)
RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz; was_held boolean;
BEGIN
  PERFORM lock_v1.insist(lock_v1.is_owner(o) AND lock_v1.is_mode(m));
  PERFORM lock_v1.enter(k);
  now := clock_timestamp();
  was_held := lock_v1.drop_lease(k, o, m, now);
  IF was_held THEN
    UPDATE lock_v1.semaphore SET permits = greatest(0, permits - lock_v1.take(m)) WHERE key = k;
  END IF;
  RETURN lock_v1.let_go(k, o, m, c, was_held, true, now);
END $$;

CREATE OR REPLACE FUNCTION lock_v1.close(k bytea, n bigint, c text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz;
BEGIN
  PERFORM lock_v1.insist(lock_v1.is_number(n));
  PERFORM lock_v1.enter(k);
  now := clock_timestamp();
  PERFORM lock_v1.check_kind(k, now);
  PERFORM lock_v1.declare(k, n, now, now);
  UPDATE lock_v1.semaphore SET closed = true WHERE key = k;
  DELETE FROM lock_v1.waiter WHERE key = k AND mode LIKE 'p%';
  PERFORM lock_v1.tell_all(k, 'R', c);
  PERFORM lock_v1.serve(k, '', '', now);
  PERFORM lock_v1.settle(k);
END $$;

CREATE OR REPLACE FUNCTION lock_v1.undeclare(k bytea, o text)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz;
BEGIN
  PERFORM lock_v1.insist(lock_v1.is_owner(o));
  PERFORM lock_v1.hold(k);
  now := clock_timestamp();
  IF NOT lock_v1.has(k, o, 'x', now) THEN RETURN false; END IF;
  DELETE FROM lock_v1.semaphore WHERE key = k;
  RETURN true;
END $$;

-- The verbs. Clients call them, each as one statement. The letters are: k key, o owner, m mode, t ttl in milliseconds,
-- n number of tokens, q whether to queue, v whether to bring the value, c client that listens ('' if none does). `late` is the
-- time after which the client has given up its request, or NULL.

-- The grant that a claim holds.
CREATE OR REPLACE FUNCTION lock_v1.granted(k bytea, o text, m text, c text, v boolean, now timestamptz)
RETURNS lock_v1.answer LANGUAGE plpgsql AS $$
DECLARE a lock_v1.answer;
BEGIN
  SELECT 'G', h.first, h.count, h.ttl, lock_v1.us(h.ends - now) INTO a.verdict, a.first, a.count, a.ttl, a.rest
    FROM lock_v1.held h WHERE h.key = k AND h.owner = o AND h.mode = m;
  a.contention := lock_v1.contention(k, c);
  IF v THEN
    a.has_value := true;
    SELECT x.value, x.token, lock_v1.has(k, x.writer, 'x', now) INTO a.value, a.value_token, a.value_held
      FROM lock_v1.cell x WHERE x.key = k;
  END IF;
  RETURN a;
END $$;

-- The former grant, for no less time, if the claim holds the key already.
CREATE OR REPLACE FUNCTION lock_v1.again(k bytea, o text, m text, t int, c text, v boolean, now timestamptz)
RETURNS lock_v1.answer LANGUAGE plpgsql AS $$
DECLARE until timestamptz := now + lock_v1.ms(t);
BEGIN
  IF m = 'x' THEN
    UPDATE lock_v1.key SET ends = greatest(ends, until), ttl = CASE WHEN until > ends THEN t ELSE ttl END, client = c
      WHERE key = k AND owner = o AND ends > now;
  ELSE
    UPDATE lock_v1.holder SET ends = greatest(ends, until), ttl = CASE WHEN until > ends THEN t ELSE ttl END, client = c
      WHERE key = k AND owner = o AND mode = m AND ends > now;
  END IF;
  IF NOT FOUND THEN RETURN NULL; END IF;
  RETURN lock_v1.granted(k, o, m, c, v, now);
END $$;

-- Writes a new lease for the client that asks.
CREATE OR REPLACE FUNCTION lock_v1.grant_now(k bytea, o text, m text, t int, n int, c text, v boolean, now timestamptz)
RETURNS lock_v1.answer LANGUAGE plpgsql AS $$
BEGIN
  PERFORM lock_v1.put(k, o, m, t, n, now + lock_v1.ms(t), c, now);
  RETURN lock_v1.granted(k, o, m, c, v, now);
END $$;

CREATE OR REPLACE FUNCTION lock_v1.rest(until timestamptz, now timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN isfinite(until) THEN lock_v1.us(until - now) END $$;

-- Refuses a request for which there may be room at `free`. Gives it a place if it asks for one and its client listens.
CREATE OR REPLACE FUNCTION lock_v1.refuse(k bytea, o text, m text, f text, t int, n int, q boolean, v boolean, c text,
  most int, free timestamptz, now timestamptz) RETURNS lock_v1.answer LANGUAGE plpgsql AS $$
DECLARE a lock_v1.answer; first_one boolean; h text;
BEGIN
  a.verdict := 'B';
  a.rest := lock_v1.rest(free, now);
  a.at := lock_v1.us(now - 'epoch');
  IF NOT q OR NOT lock_v1.reach(k, c) THEN RETURN a; END IF;
  first_one := NOT EXISTS (SELECT FROM lock_v1.waiter WHERE key = k);
  IF lock_v1.join(k, o, m, f, t, n, v, c, most, now) AND first_one THEN
    FOR h IN SELECT DISTINCT x.client FROM lock_v1.held x JOIN lock_v1.watcher y ON (y.key, y.client) = (x.key, x.client)
      WHERE x.key = k LOOP
      PERFORM lock_v1.tell(h, 'C', k, '');
    END LOOP;
  END IF;
  a.verdict := 'Q';
  a.rest := least(a.rest, lock_v1.first_end(k, now), greatest(t, 3000)::bigint * 1000 / 3);
  RETURN a;
END $$;

-- A request that the fast path does not grant. It overtakes no waiter. Only a member of the group that holds the key enters
-- at once.
CREATE OR REPLACE FUNCTION lock_v1.ask(k bytea, o text, m text, t int, n int, q boolean, v boolean, c text, most int,
  late timestamptz) RETURNS lock_v1.answer LANGUAGE plpgsql AS $$
DECLARE now timestamptz; a lock_v1.answer; free timestamptz; lined boolean; served int := 0;
BEGIN
  PERFORM lock_v1.insist(lock_v1.is_request(o, m, t, n) AND lock_v1.is_client(c));
  PERFORM lock_v1.enter(k);
  PERFORM lock_v1.be_in_time(late);
  now := clock_timestamp();
  PERFORM lock_v1.clear(k, now);
  PERFORM lock_v1.declare_for(k, m, t, now);
  a := lock_v1.again(k, o, m, t, c, v, now);
  IF a.verdict IS NOT NULL THEN RETURN a; END IF;
  IF lock_v1.is_closed(k, m) THEN
    DELETE FROM lock_v1.waiter WHERE key = k AND owner = o AND mode = m;
    PERFORM lock_v1.serve(k, '', '', now);
    PERFORM lock_v1.settle(k);
    a.verdict := 'C';
    RETURN a;
  END IF;
  lined := EXISTS (SELECT FROM lock_v1.waiter WHERE key = k);
  IF m LIKE 'j%' AND EXISTS (SELECT FROM lock_v1.holder WHERE key = k AND mode = m) THEN
    DELETE FROM lock_v1.waiter WHERE key = k AND owner = o AND mode = m;
    a := lock_v1.grant_now(k, o, m, t, n, c, v, now);
  ELSIF lined THEN
    served := lock_v1.serve(k, o, m, now);
    a := lock_v1.again(k, o, m, t, c, v, now);
    lined := EXISTS (SELECT FROM lock_v1.waiter WHERE key = k);
  END IF;
  IF a.verdict IS NULL THEN
    free := lock_v1.room(k, m, now);
    IF free = '-infinity' AND NOT lined THEN
      a := lock_v1.grant_now(k, o, m, t, n, c, v, now);
    ELSE
      IF free = '-infinity' THEN SELECT max(lock_v1.over(ends, now)) INTO free FROM lock_v1.held WHERE key = k; END IF;
      a := lock_v1.refuse(k, o, m, NULL, t, n, q, v, c, most, free, now);
    END IF;
  END IF;
  PERFORM lock_v1.settle(k);
  -- A place that a crash forgets is taken again.
  IF served = 0 AND a.verdict <> 'G' THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
  RETURN a;
END $$;

-- Asks once for a lease. A grant takes the row FOR UPDATE, so it waits for no transaction that has checked the fence, and is
-- refused instead. A free key that concerns no other client is granted by one change of its row. There the length of the owner
-- is looked at alone: that takes a tenth of the time.
CREATE OR REPLACE FUNCTION lock_v1.acquire(k bytea, o text, m text, t int, n int, q boolean, v boolean, c text, most int,
  late timestamptz DEFAULT NULL) RETURNS lock_v1.answer LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz := clock_timestamp(); a lock_v1.answer; f bigint := lock_v1.floor(now);
BEGIN
  IF m = 'x' AND length(o) = 32 AND t BETWEEN 1 AND 86400000 AND n > 0
    AND current_setting('transaction_isolation') = 'read committed' THEN
    PERFORM FROM lock_v1.key WHERE key = k AND plain AND ends <= now FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      IF lock_v1.is_late(late) THEN PERFORM lock_v1.be_in_time(late); END IF;
      UPDATE lock_v1.key x SET owner = o, client = c, ttl = t, ends = now + lock_v1.ms(t), first = greatest(x.last + 1, f),
        count = CASE WHEN greatest(x.last + 1, f) + n - 1 > f + 4000000 THEN 1 ELSE n END,
        last = greatest(x.last + 1, f) + CASE WHEN greatest(x.last + 1, f) + n - 1 > f + 4000000 THEN 0 ELSE n - 1 END
        WHERE x.key = k RETURNING 'G', x.first, x.count, t, t::bigint * 1000, 'u'
        INTO a.verdict, a.first, a.count, a.ttl, a.rest, a.contention;
      IF v THEN
        a.has_value := true;
        SELECT x.value, x.token, x.writer = o INTO a.value, a.value_token, a.value_held FROM lock_v1.cell x WHERE x.key = k;
      END IF;
      RETURN a;
    END IF;
  END IF;
  RETURN lock_v1.ask(k, o, m, t, n, q, v, c, most, late);
END $$;

-- Asks once for several leases: all or none. The rows are taken in the order of the keys, so that two such requests do not
-- wait for each other.
CREATE OR REPLACE FUNCTION lock_v1.acquire_all(k bytea[], o text[], m text[], t int[], n int[], v boolean[], c text,
  late timestamptz DEFAULT NULL) RETURNS SETOF lock_v1.answer LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz; a lock_v1.answer; i int; all_free boolean := true; free timestamptz; rests bigint[] := '{}';
BEGIN
  PERFORM lock_v1.insist(lock_v1.is_client(c) AND (SELECT count(DISTINCT x.key) = cardinality(k)
      AND bool_and(lock_v1.is_request(x.owner, x.mode, x.ttl, x.tokens) AND x.value IS NOT NULL)
    FROM unnest(k, o, m, t, n, v) x (key, owner, mode, ttl, tokens, value)));
  FOR i IN SELECT x.i FROM unnest(k) WITH ORDINALITY AS x(key, i) ORDER BY x.key LOOP PERFORM lock_v1.enter(k[i]); END LOOP;
  PERFORM lock_v1.be_in_time(late);
  now := clock_timestamp();
  FOR i IN 1 .. cardinality(k) LOOP
    PERFORM lock_v1.clear(k[i], now);
    PERFORM lock_v1.declare_for(k[i], m[i], t[i], now);
    -- Even if the claim itself waits here, this request grants it only with the others.
    PERFORM lock_v1.serve(k[i], '', '', now);
    free := '-infinity';
    IF NOT lock_v1.has(k[i], o[i], m[i], now) THEN
      IF lock_v1.is_closed(k[i], m[i]) THEN
        RAISE EXCEPTION 'the semaphore is closed' USING ERRCODE = 'LK004';
      END IF;
      IF NOT (m[i] LIKE 'j%' AND EXISTS (SELECT FROM lock_v1.holder WHERE key = k[i] AND mode = m[i])) THEN
        free := lock_v1.room(k[i], m[i], now);
        IF free = '-infinity' AND EXISTS (SELECT FROM lock_v1.waiter WHERE key = k[i]) THEN
          SELECT max(lock_v1.over(ends, now)) INTO free FROM lock_v1.held WHERE key = k[i];
          free := coalesce(free, 'infinity');
        END IF;
      END IF;
    END IF;
    all_free := all_free AND free = '-infinity';
    rests := rests || lock_v1.rest(free, now);
  END LOOP;
  FOR i IN 1 .. cardinality(k) LOOP
    a := NULL;
    IF all_free THEN
      a := lock_v1.again(k[i], o[i], m[i], t[i], c, v[i], now);
      IF a.verdict IS NULL THEN a := lock_v1.grant_now(k[i], o[i], m[i], t[i], n[i], c, v[i], now); END IF;
    ELSE
      a.verdict := 'B';
      a.rest := rests[i];
    END IF;
    PERFORM lock_v1.settle(k[i]);
    RETURN NEXT a;
  END LOOP;
END $$;

-- Renews a lease: verdict G, or N if it is over. A renewal passes a transaction that has checked the fence. A late one is
-- refused: it could come after another one that was sent on another connection, and shorten the lease.
CREATE OR REPLACE FUNCTION lock_v1.renew(k bytea, o text, m text, t int, n int, c text, late timestamptz DEFAULT NULL)
RETURNS lock_v1.answer LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz := clock_timestamp(); until timestamptz; a lock_v1.answer; alone boolean;
BEGIN
  IF (length(o) = 32 AND t BETWEEN 1 AND 86400000 AND n >= 0) IS NOT TRUE THEN PERFORM lock_v1.insist(false); END IF;
  until := now + lock_v1.ms(t);
  IF m = 'x' THEN
    UPDATE lock_v1.key SET ends = until, ttl = t, client = c
      WHERE key = k AND owner = o AND ends > now RETURNING plain INTO alone;
  ELSE
    UPDATE lock_v1.holder SET ends = until, ttl = t, client = c
      WHERE key = k AND owner = o AND mode = m AND ends > now RETURNING false INTO alone;
  END IF;
  a.verdict := CASE WHEN FOUND THEN 'G' ELSE 'N' END;
  IF a.verdict = 'N' THEN RETURN a; END IF;
  IF lock_v1.is_late(late) THEN PERFORM lock_v1.be_in_time(late); END IF;
  a.ttl := t;
  a.contention := CASE WHEN alone THEN 'u' ELSE lock_v1.contention(k, c) END;
  -- Tokens of a reader could not be told from those of another one, if they were not in one range.
  IF n > 0 AND m = 'x' THEN SELECT * INTO a.first, a.count FROM lock_v1.reserve(k, n, now); END IF;
  IF m LIKE 'p%' THEN
    UPDATE lock_v1.semaphore SET used = greatest(used, until) WHERE key = k;
  END IF;
  RETURN a;
END $$;

-- Serves the queue after a lease has ended, or after a claim has given up its place. Returns how many clients heard that
-- the key is free, or -1 if nothing was held. What hands nothing over need not wait for the disk: if the server crashes
-- and forgets it, the lease ends by itself. What hands a lease over waits, as every grant does, and so does a change that must
-- last. A lease that a transaction keeps does not count: its clients ask again until the transaction ends.
CREATE OR REPLACE FUNCTION lock_v1.let_go(k bytea, o text, m text, c text, was_held boolean, lasts boolean, now timestamptz)
RETURNS int LANGUAGE plpgsql AS $$
DECLARE told int := 0; served int;
BEGIN
  IF NOT was_held THEN DELETE FROM lock_v1.waiter WHERE key = k AND owner = o AND mode = m; END IF;
  served := lock_v1.serve(k, '', '', now);
  IF served = 0 AND NOT lasts THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
  IF was_held THEN
    IF NOT EXISTS (SELECT FROM lock_v1.held WHERE key = k AND owner <> '' AND ends > now) THEN
      told := lock_v1.tell_all(k, 'R', c);
    ELSIF m = 's' AND NOT EXISTS (SELECT FROM lock_v1.waiter WHERE key = k)
      AND (SELECT count(*) = 1 AND bool_and(mode = 'u') FROM lock_v1.held WHERE key = k) THEN
      -- An upgrade without a place can only ask again.
      PERFORM lock_v1.tell_all(k, 'R', c);
    END IF;
  END IF;
  PERFORM lock_v1.settle(k);
  RETURN CASE WHEN was_held THEN told ELSE -1 END;
END $$;

CREATE OR REPLACE FUNCTION lock_v1.release(k bytea, o text, m text, c text)
RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz := clock_timestamp();
BEGIN
  IF length(o) <> 32 THEN PERFORM lock_v1.insist(false); END IF;
  IF m = 'x' THEN
    UPDATE lock_v1.key SET owner = NULL, ends = '-infinity' WHERE key = k AND owner = o AND plain AND ends > now;
    IF FOUND THEN
      PERFORM set_config('synchronous_commit', 'off', true);
      RETURN 0;
    END IF;
  END IF;
  RETURN lock_v1.end_lease(k, o, m, c);
END $$;

CREATE OR REPLACE FUNCTION lock_v1.end_lease(k bytea, o text, m text, c text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE now timestamptz;
BEGIN
  IF NOT lock_v1.hold(k) THEN RETURN -1; END IF;
  now := clock_timestamp();
  RETURN lock_v1.let_go(k, o, m, c, lock_v1.drop_lease(k, o, m, now), false, now);
END $$;

-- Releases a lease for which other claims wait, and puts the request behind them, in one step. NULL if that cannot be done;
-- then nothing was done.
CREATE OR REPLACE FUNCTION lock_v1.requeue(k bytea, o text, m text, o2 text, m2 text, t int, n int, v boolean, c text, most int,
  late timestamptz DEFAULT NULL)
RETURNS lock_v1.answer LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz; a lock_v1.answer;
BEGIN
  PERFORM lock_v1.insist(lock_v1.is_owner(o) AND lock_v1.is_request(o2, m2, t, n));
  PERFORM lock_v1.hold(k);
  PERFORM lock_v1.be_in_time(late);
  now := clock_timestamp();
  IF NOT lock_v1.has(k, o, m, now) OR NOT lock_v1.reach(k, c) OR lock_v1.is_closed(k, m2)
    OR NOT EXISTS (SELECT FROM lock_v1.waiter WHERE key = k AND ends > now) THEN RETURN NULL; END IF;
  PERFORM lock_v1.declare_for(k, m2, t, now);
  PERFORM lock_v1.join(k, o2, m2, NULL, t, n, v, c, most, now);
  PERFORM lock_v1.drop_lease(k, o, m, now);
  PERFORM lock_v1.serve(k, '', '', now);
  PERFORM lock_v1.settle(k);
  a.verdict := 'Q';
  a.at := lock_v1.us(now - 'epoch');
  a.rest := least(lock_v1.first_end(k, now), greatest(t, 3000)::bigint * 1000 / 3);
  RETURN a;
END $$;

-- The highest token of a lease that is or was exclusive; NULL for any other lease. Readers of an exclusive lease may have tokens
-- of its renewals, and keep them when the lease is converted. All tokens from the first to this one belong to the lease.
CREATE OR REPLACE FUNCTION lock_v1.highest(k bytea, o text, m text) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN m = 'x' THEN (SELECT last FROM lock_v1.key WHERE key = k)
    ELSE (SELECT upto FROM lock_v1.holder WHERE key = k AND owner = o AND mode = m) END
$$;

-- Gives a lease another mode. It gets no shorter, and in a weaker mode it keeps its tokens.
CREATE OR REPLACE FUNCTION lock_v1.change(h lock_v1.held, m text, t int, c text, now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE until timestamptz := now + lock_v1.ms(t); highest bigint := lock_v1.highest(h.key, h.owner, h.mode);
BEGIN
  PERFORM lock_v1.drop_lease(h.key, h.owner, h.mode, now);
  PERFORM lock_v1.turn(h.key, h.owner, m, h.first, h.count, CASE WHEN h.ends > until THEN h.ttl ELSE t END,
    greatest(h.ends, until), c);
  IF m <> 'x' THEN UPDATE lock_v1.holder SET upto = highest WHERE key = h.key AND owner = h.owner AND mode = m; END IF;
END $$;

-- Converts a lease to a weaker mode at once, or to the exclusive one when it is alone.
CREATE OR REPLACE FUNCTION lock_v1.convert(k bytea, o text, f text, m text, t int, n int, q boolean, c text, most int,
  late timestamptz DEFAULT NULL) RETURNS lock_v1.answer LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz; a lock_v1.answer; h lock_v1.held; free timestamptz;
BEGIN
  PERFORM lock_v1.insist(lock_v1.is_request(o, m, t, n) AND lock_v1.is_client(c));
  PERFORM lock_v1.enter(k);
  PERFORM lock_v1.be_in_time(late);
  now := clock_timestamp();
  PERFORM lock_v1.clear(k, now);
  -- A number that was forgotten meanwhile ends no lease.
  IF m LIKE 'p%' THEN
    UPDATE lock_v1.semaphore SET used = greatest(used, now + lock_v1.ms(t)) WHERE key = k;
  END IF;
  a := lock_v1.again(k, o, m, t, c, false, now);
  IF a.verdict IS NOT NULL THEN RETURN a; END IF;
  SELECT * INTO h FROM lock_v1.held WHERE key = k AND owner = o AND mode = f AND ends > now;
  IF NOT FOUND THEN
    a.verdict := 'N';
    RETURN a;
  END IF;
  IF m = 'x' THEN
    SELECT max(lock_v1.over(ends, now)) INTO free FROM lock_v1.held WHERE key = k AND (owner, mode) <> (o, f);
    IF free IS NOT NULL THEN
      IF NOT q THEN
        DELETE FROM lock_v1.waiter WHERE key = k AND owner = o AND mode = m AND former = f;
        IF FOUND THEN PERFORM lock_v1.serve(k, '', '', now); END IF;
      END IF;
      a := lock_v1.refuse(k, o, m, f, t, n, q, false, c, most, free, now);
      PERFORM lock_v1.settle(k);
      RETURN a;
    END IF;
    DELETE FROM lock_v1.waiter WHERE key = k AND owner = o AND mode = m;
    SELECT x.first, x.count INTO h.first, h.count FROM lock_v1.reserve(k, n, now) x;
  END IF;
  PERFORM lock_v1.change(h, m, t, c, now);
  IF m <> 'x' THEN PERFORM lock_v1.serve(k, '', '', now); END IF;
  PERFORM lock_v1.clear(k, now);
  PERFORM lock_v1.settle(k);
  RETURN lock_v1.granted(k, o, m, c, false, now);
END $$;

-- Returns whether the listening connection of the client is one to this database. If not, the client would hear nothing.
CREATE OR REPLACE FUNCTION lock_v1.watch(k bytea, c text, w bigint)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM lock_v1.insist(lock_v1.is_client(c));
  PERFORM lock_v1.check_level();
  IF c = '' OR NOT lock_v1.is_there(c) THEN RETURN false; END IF;
  PERFORM lock_v1.enter(k);
  INSERT INTO lock_v1.watcher VALUES (k, c, w) ON CONFLICT DO NOTHING;
  UPDATE lock_v1.key SET plain = false WHERE key = k AND plain;
  PERFORM set_config('synchronous_commit', 'off', true);
  RETURN true;
END $$;

CREATE OR REPLACE FUNCTION lock_v1.unwatch(k bytea, c text, w bigint)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM lock_v1.hold(k);
  DELETE FROM lock_v1.watcher WHERE key = k AND client = c AND watch = w;
  PERFORM lock_v1.settle(k);
  PERFORM set_config('synchronous_commit', 'off', true);
END $$;

-- The value beside a lock.

CREATE OR REPLACE FUNCTION lock_v1.load(k bytea, OUT value bytea, OUT token bigint, OUT held boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz := clock_timestamp();
BEGIN
  SELECT x.value, x.token, lock_v1.has(k, x.writer, 'x', now) INTO value, token, held FROM lock_v1.cell x WHERE x.key = k;
END $$;

-- A client reads into its memory what another one has written.
CREATE OR REPLACE FUNCTION lock_v1.is_value(v bytea) RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT v IS NULL OR octet_length(v) <= 65536 $$;

-- Writes or erases the value, if the claim holds the key and no higher token has written. The row of the key is held. The token
-- is no lower than the first one of the lease, and ahead of the clock by a second at most, so that later holders can write.
CREATE OR REPLACE FUNCTION lock_v1.write(k bytea, o text, tok bigint, v bytea, c text, now timestamptz) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM lock_v1.key WHERE key = k AND owner = o AND ends > now
      AND tok BETWEEN first AND greatest(last, lock_v1.floor(now)) + 4000000)
    OR EXISTS (SELECT FROM lock_v1.cell WHERE key = k AND token > tok) THEN
    RETURN false;
  END IF;
  IF v IS NULL THEN DELETE FROM lock_v1.cell WHERE key = k;
  ELSE
    INSERT INTO lock_v1.cell VALUES (k, v, tok, o) ON CONFLICT (key) DO UPDATE SET value = v, token = tok, writer = o;
  END IF;
  PERFORM lock_v1.tell_all(k, 'V', c);
  RETURN true;
END $$;

CREATE OR REPLACE FUNCTION lock_v1.store(k bytea, o text, tok bigint, v bytea, c text)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz;
BEGIN
  PERFORM lock_v1.insist(lock_v1.is_owner(o) AND lock_v1.is_value(v));
  PERFORM lock_v1.hold(k);
  now := clock_timestamp();
  RETURN lock_v1.write(k, o, tok, v, c, now);
END $$;

-- Writes the value and ends the lease. Returns how many clients heard that the key is free; -1 if the value is not written.
CREATE OR REPLACE FUNCTION lock_v1.commit(k bytea, o text, tok bigint, v bytea, c text)
RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz; is_done boolean;
BEGIN
  PERFORM lock_v1.insist(lock_v1.is_owner(o) AND lock_v1.is_value(v));
  PERFORM lock_v1.hold(k);
  now := clock_timestamp();
  IF NOT lock_v1.write(k, o, tok, v, c, now) THEN
    -- A repetition of a commit that was done.
    is_done := EXISTS (SELECT FROM lock_v1.cell WHERE key = k AND token = tok AND value = v)
      AND NOT lock_v1.has(k, o, 'x', now);
    RETURN CASE WHEN is_done THEN 0 ELSE -1 END;
  END IF;
  RETURN greatest(0, lock_v1.let_go(k, o, 'x', c, lock_v1.drop_lease(k, o, 'x', now), true, now));
END $$;

-- What operators see and do.

-- Keeps the label of a client, and removes some that are over: its own row first, and none that another client keeps just now,
-- so that two clients do not wait for each other.
CREATE OR REPLACE FUNCTION lock_v1.introduce(mark text, name text, keep int)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz := clock_timestamp();
BEGIN
  PERFORM lock_v1.insist(mark ~ '^[0-9a-f]{10}$' AND octet_length(convert_to(name, 'UTF8')) BETWEEN 1 AND 128 AND keep >= 0);
  INSERT INTO lock_v1.label VALUES (mark, name, now + lock_v1.ms(keep))
    ON CONFLICT ON CONSTRAINT label_pkey DO UPDATE SET label = excluded.label, ends = excluded.ends;
  DELETE FROM lock_v1.label x WHERE x.ctid = ANY (ARRAY(
    SELECT ctid FROM lock_v1.label WHERE ends <= now ORDER BY ends LIMIT 100 FOR UPDATE SKIP LOCKED));
  PERFORM set_config('synchronous_commit', 'off', true);
END $$;

-- The holders (part h) and the waiters (part w) of a key, each with the number of all.
CREATE OR REPLACE FUNCTION lock_v1.look(k bytea, most int, now timestamptz)
RETURNS TABLE (part text, kind text, token bigint, rest bigint, name text, total bigint, waited bigint) LANGUAGE sql STABLE AS $$
  (SELECT 'h', left(h.mode, 1) || h.take, h.first, lock_v1.us(h.ends - now), l.label, count(*) OVER (), NULL::bigint
    FROM lock_v1.held h LEFT JOIN lock_v1.label l ON l.mark = right(h.owner, 10) AND l.ends > now
    WHERE h.key = k AND h.ends > now LIMIT most)
  UNION ALL
  (SELECT 'w', left(w.mode, 1) || lock_v1.take(w.mode), NULL, lock_v1.us(w.ends - now), l.label, count(*) OVER (),
      lock_v1.us(now - w.joined)
    FROM lock_v1.waiter w LEFT JOIN lock_v1.label l ON l.mark = right(w.owner, 10) AND l.ends > now
    WHERE w.key = k AND w.ends > now
      AND (w.former IS NULL OR lock_v1.has(k, w.owner, w.former, now)) ORDER BY w.pos LIMIT most)
$$;

CREATE OR REPLACE FUNCTION lock_v1.inspect(k bytea, most int)
RETURNS TABLE (part text, kind text, token bigint, rest bigint, name text, total bigint, waited bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz := clock_timestamp();
BEGIN
  RETURN QUERY SELECT * FROM lock_v1.look(k, most, now);
END $$;

-- A page: so many keys from `lo` on, below `hi`, in their order, each with what `look` says of it.
CREATE OR REPLACE FUNCTION lock_v1.list(lo bytea, hi bytea, page int, most int)
RETURNS TABLE (lock bytea, part text, kind text, token bigint, rest bigint, name text, total bigint, waited bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz := clock_timestamp();
BEGIN
  RETURN QUERY SELECT x.key, y.* FROM (
      SELECT z.key FROM lock_v1.key z WHERE z.key >= lo AND (hi IS NULL OR z.key < hi) ORDER BY z.key LIMIT page) x
    LEFT JOIN LATERAL lock_v1.look(x.key, most, now) y ON true ORDER BY x.key;
END $$;

-- Ends every lease on a key, and serves the queue. Returns how many leases there were.
CREATE OR REPLACE FUNCTION lock_v1.force_release(k bytea, c text)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz; ended bigint;
BEGIN
  PERFORM lock_v1.hold(k);
  now := clock_timestamp();
  SELECT count(*) INTO ended FROM lock_v1.held WHERE key = k AND ends > now;
  UPDATE lock_v1.key SET owner = NULL, ends = '-infinity' WHERE key = k AND owner IS NOT NULL;
  UPDATE lock_v1.holder SET ends = '-infinity' WHERE key = k;
  -- Told even if a waiter is served, because the former holders have to check their leases.
  PERFORM lock_v1.tell_all(k, 'R', c);
  PERFORM lock_v1.serve(k, '', '', now);
  PERFORM lock_v1.settle(k);
  RETURN ended;
END $$;

-- Whether something of a key is in use, apart from its exclusive lease.
CREATE OR REPLACE FUNCTION lock_v1.is_used(k bytea, now timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM lock_v1.holder WHERE key = k AND ends > now)
    OR EXISTS (SELECT FROM lock_v1.waiter WHERE key = k AND ends > now)
    OR EXISTS (SELECT FROM lock_v1.watcher WHERE key = k)
$$;

-- Whether something of a key can be removed, at first sight. A semaphore or a fence may have no row of its key.
CREATE OR REPLACE FUNCTION lock_v1.unused(k bytea, now timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN EXISTS (SELECT FROM lock_v1.key WHERE key = k) THEN
      EXISTS (SELECT FROM lock_v1.key WHERE key = k AND last < lock_v1.floor(now - interval '1 hour')
        AND (owner IS NULL OR ends <= now)) AND NOT lock_v1.is_used(k, now)
    ELSE
      EXISTS (SELECT FROM lock_v1.fence WHERE key = k) OR EXISTS (SELECT FROM lock_v1.semaphore
        WHERE key = k AND permits = declared[1] AND NOT closed AND used + interval '1 hour' <= now)
    END
$$;

-- The next keys behind `lo`, in their order. The table of the keys may lack some of them.
CREATE OR REPLACE FUNCTION lock_v1.keys_behind(lo bytea, most int) RETURNS SETOF bytea LANGUAGE sql STABLE AS $$
  SELECT key FROM (
    (SELECT key FROM lock_v1.key WHERE key > lo ORDER BY key LIMIT most)
    UNION (SELECT key FROM lock_v1.semaphore WHERE key > lo ORDER BY key LIMIT most)
    UNION (SELECT key FROM lock_v1.fence WHERE key > lo ORDER BY key LIMIT most)) x
  ORDER BY key LIMIT most
$$;

-- Removes what there is of a key, if all of it is unused and in no other transaction's hands. Returns whether it did.
CREATE OR REPLACE FUNCTION lock_v1.sweep(k bytea, now timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO lock_v1.key (key) VALUES (k) ON CONFLICT DO NOTHING;
  PERFORM FROM lock_v1.key WHERE key = k AND last < lock_v1.floor(now - interval '1 hour') AND (owner IS NULL OR ends <= now)
    FOR UPDATE SKIP LOCKED;
  IF NOT FOUND OR lock_v1.is_used(k, now) OR lock_v1.clear(k, now) THEN RETURN false; END IF;
  DELETE FROM lock_v1.waiter WHERE key = k;
  DELETE FROM lock_v1.semaphore
    WHERE key = k AND permits = declared[1] AND NOT closed AND used + interval '1 hour' <= now;
  -- A check takes this row before that of the key, so waiting for it could end in a deadlock.
  DELETE FROM lock_v1.fence WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM lock_v1.fence WHERE key = k FOR UPDATE SKIP LOCKED));
  DELETE FROM lock_v1.key WHERE key = k;
  RETURN true;
END $$;

-- Removes the watches of clients that are gone: at most so many, because a statement has a limit. The rows of the keys stay as they
-- are: such a client never comes back, and a key that is not `plain` is merely slower.
CREATE OR REPLACE FUNCTION lock_v1.end_watches(most int) RETURNS void LANGUAGE sql VOLATILE AS $$
  DELETE FROM lock_v1.watcher WHERE ctid = ANY (ARRAY(
    SELECT w.ctid FROM lock_v1.watcher w WHERE w.client = ANY (ARRAY(
      SELECT client FROM (SELECT DISTINCT client FROM lock_v1.watcher) x WHERE NOT lock_v1.is_there(client))) LIMIT most))
$$;

-- One step of a sweep: looks at the next `most` locks, and removes those that were not used for an hour. Tokens go on, because
-- they are above the clock of an hour ago. Values, and semaphores that were closed or resized, stay. A client
-- begins with NULL as `former`, and passes the result to the next call. NULL as the result ends its work: the sweep is done, is
-- not due, or is in the hands of another client. A sweep is due ten minutes after the last one. If a sweep rests for a minute,
-- any client may go on with it.
CREATE OR REPLACE FUNCTION lock_v1.tidy_on(most int, former bytea, OUT removed int, OUT reached bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz := clock_timestamp(); k bytea; behind bytea; seen int := 0;
BEGIN
  PERFORM lock_v1.check_level();
  removed := 0;
  SELECT x.reached INTO behind FROM lock_v1.meta x WHERE CASE
      WHEN former IS NOT NULL THEN x.reached = former
      WHEN x.reached IS NOT NULL THEN x.swept + interval '1 minute' <= now
      ELSE x.swept + interval '10 minutes' <= now END
    FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN; END IF;
  IF behind IS NULL THEN PERFORM lock_v1.end_watches(5000); END IF;
  FOR k IN SELECT * FROM lock_v1.keys_behind(coalesce(behind, ''), most) LOOP
    seen := seen + 1;
    reached := k;
    IF lock_v1.unused(k, now) THEN removed := removed + lock_v1.sweep(k, now)::int; END IF;
  END LOOP;
  IF seen < most THEN reached := NULL; END IF;
  UPDATE lock_v1.meta x SET reached = tidy_on.reached, swept = now;
  PERFORM set_config('synchronous_commit', 'off', true);
END $$;

-- One step of a sweep, from wherever the sweep is. Returns how many locks are gone.
CREATE OR REPLACE FUNCTION lock_v1.tidy(most int)
RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT removed FROM lock_v1.tidy_on(most, (SELECT reached FROM lock_v1.meta)));
END $$;

-- The sessions that keep a lock by an open transaction, which has checked the fence.
CREATE OR REPLACE FUNCTION lock_v1.pins(name text)
RETURNS TABLE (pid int) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE k bytea := convert_to('n' || name, 'UTF8');
BEGIN
  RETURN QUERY SELECT DISTINCT l.pid FROM (
      SELECT x.xmax AS id FROM lock_v1.key x WHERE x.key = k UNION ALL SELECT x.xmax FROM lock_v1.holder x WHERE x.key = k) r
    CROSS JOIN LATERAL lock_v1.lockers(r.id) t (id)
    JOIN pg_locks l ON l.transactionid = t.id AND l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted;
END $$;

-- The transactions that a row may name as those that lock it. One number stands for one transaction, or for several.
CREATE OR REPLACE FUNCTION lock_v1.lockers(id xid) RETURNS SETOF xid LANGUAGE plpgsql AS $$
BEGIN
  RETURN NEXT id;
  RETURN QUERY SELECT m.xid FROM pg_get_multixact_members(id) m;
EXCEPTION WHEN OTHERS THEN
  -- The number stands for one.
  RETURN;
END $$;

CREATE OR REPLACE FUNCTION lock_v1.version()
RETURNS int LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp STABLE AS
$$ SELECT version FROM lock_v1.meta $$;

-- Which functions these are: the number of their release, and a digest.
CREATE OR REPLACE FUNCTION lock_v1.functions()
RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp STABLE AS
$$ SELECT functions FROM lock_v1.meta $$;

-- The database as one node of a quorum. The letters are those of the verbs.

-- The file of the table of the standing. Its path names the database. A table that was restored or copied has another one.
CREATE OR REPLACE FUNCTION lock_v1.place() RETURNS text LANGUAGE sql STABLE AS
$$ SELECT pg_relation_filepath('lock_v1.standing') $$;

-- The record of the present standing; NULL if there is none of this run of the server and of this table.
CREATE OR REPLACE FUNCTION lock_v1.record() RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT format('%s %s %s %s %s %s', s.server, s.quarantine, coalesce(s.most::text, '-'), n.members, n.longest,
      coalesce(lock_v1.us(s.begun - 'epoch')::text, '-'))
    FROM lock_v1.standing s, lock_v1.node n WHERE s.started = pg_postmaster_start_time() AND s.place = lock_v1.place()
$$;

-- Up to n tokens that were never given out, the last of which is the floor; if the floor was given out, the next token. A
-- floor more than an hour ahead counts as one an hour ahead. A row that `tidy` has removed had no token of the last hour.
CREATE OR REPLACE FUNCTION lock_v1.reserve_to(k bytea, n int, f bigint, now timestamptz, OUT first bigint, OUT count int)
LANGUAGE plpgsql AS $$
DECLARE hour bigint := 14400000000; at bigint := lock_v1.floor(now); highest bigint; final bigint;
BEGIN
  SELECT x.last INTO highest FROM lock_v1.key x WHERE x.key = k;
  highest := greatest(highest, at - hour);
  final := greatest(highest + 1, least(f, at + hour));
  first := greatest(highest + 1, final - n + 1);
  count := final - first + 1;
  UPDATE lock_v1.key x SET last = final WHERE x.key = k;
END $$;

-- The tag of the owner whose lease ends last, or of the first waiter; NULL if there is neither.
CREATE OR REPLACE FUNCTION lock_v1.in_the_way(k bytea, now timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT left(coalesce(
    (SELECT owner FROM lock_v1.held WHERE key = k AND ends > now AND owner <> '' ORDER BY ends DESC, owner DESC LIMIT 1),
    (SELECT owner FROM lock_v1.waiter WHERE key = k ORDER BY pos LIMIT 1)), 8)
$$;

-- Grants a lease whose last token is f, or names the owner in the way. Queues no claim, and takes the place of a claim that
-- has one. Verdict A if the node does not have the expected record: it is read after the row is locked, so a vote for an
-- earlier membership comes before all votes for a later one.
CREATE OR REPLACE FUNCTION lock_v1.vote(k bytea, o text, m text, t int, n int, f bigint, c text, expected text,
  late timestamptz DEFAULT NULL,  OUT a lock_v1.answer, OUT holder text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz; one bigint; many int; free timestamptz;
BEGIN
  PERFORM lock_v1.insist(lock_v1.is_request(o, m, t, n) AND lock_v1.is_client(c));
  PERFORM lock_v1.enter(k);
  PERFORM lock_v1.be_in_time(late);
  now := clock_timestamp();
  IF expected IS NOT NULL THEN
    IF lock_v1.record() IS DISTINCT FROM expected THEN
      a.verdict := 'A';
      RETURN;
    END IF;
    -- What a crash can forget now is seen by the record.
    PERFORM set_config('synchronous_commit', 'off', true);
  END IF;
  DELETE FROM lock_v1.waiter WHERE key = k AND owner = o AND mode = m;
  PERFORM lock_v1.serve(k, '', '', now);
  a := lock_v1.again(k, o, m, t, c, false, now);
  IF a.verdict IS NULL THEN
    IF m LIKE 'j%' THEN
      SELECT x.first, x.count INTO one, many FROM lock_v1.holder x WHERE x.key = k AND x.mode = m LIMIT 1;
    END IF;
    free := lock_v1.room(k, m, now);
    IF one IS NULL AND free = '-infinity' AND NOT EXISTS (SELECT FROM lock_v1.waiter WHERE key = k) THEN
      SELECT x.first, x.count INTO one, many FROM lock_v1.reserve_to(k, n, f, now) x;
    END IF;
    IF one IS NOT NULL THEN
      PERFORM lock_v1.turn(k, o, m, one, many, t, now + lock_v1.ms(t), c);
      a := lock_v1.granted(k, o, m, c, false, now);
    ELSE
      IF free = '-infinity' THEN SELECT max(lock_v1.over(ends, now)) INTO free FROM lock_v1.held WHERE key = k; END IF;
      a.verdict := 'B';
      a.rest := lock_v1.rest(free, now);
      holder := lock_v1.in_the_way(k, now);
    END IF;
  END IF;
  PERFORM lock_v1.settle(k);
END $$;

-- Notes a token of the quorum. Returns whether the claim holds the key, and no higher token was given out.
CREATE OR REPLACE FUNCTION lock_v1.confirm(k bytea, o text, m text, tok bigint)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz;
BEGIN
  PERFORM lock_v1.insist(lock_v1.is_owner(o));
  PERFORM lock_v1.hold(k);
  now := clock_timestamp();
  -- The clocks of the nodes may differ by a day. A number that is much higher would use up the tokens of the lock.
  PERFORM lock_v1.insist(tok BETWEEN 0 AND lock_v1.floor(now + interval '1 day'));
  IF NOT lock_v1.has(k, o, m, now) THEN RETURN false; END IF;
  UPDATE lock_v1.key SET last = tok WHERE key = k AND last <= tok;
  RETURN FOUND;
END $$;

-- The membership of a quorum, or none.
CREATE OR REPLACE FUNCTION lock_v1.is_members(m text) RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT m ~ '^(?:[0-9a-f]{24}|-)$' $$;

-- How long a lease may be for which a node stands.
CREATE OR REPLACE FUNCTION lock_v1.is_lease(t bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT t BETWEEN 1 AND 86400000 $$;

-- The standing, for a client of a quorum with these members and this longest lease. Begins a quarantine if there is no record
-- of this run, and ends one whose time is over: `c` if the clock may do so, `l` if not yet, `n` if never. `change` is empty;
-- or `*` to begin a quarantine anew; or the membership that the client's replaces. The seed names a quarantine that begins.
CREATE OR REPLACE FUNCTION lock_v1.stand(seed text, mine text, lease bigint, ending text, change text)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz; run timestamptz := pg_postmaster_start_time(); s lock_v1.standing; longest_one bigint;
BEGIN
  PERFORM lock_v1.check_level();
  PERFORM lock_v1.insist(lock_v1.is_owner(seed) AND lock_v1.is_members(mine) AND lock_v1.is_lease(lease)
    AND ending IN ('c', 'l', 'n') AND (change IN ('', '*') OR lock_v1.is_members(change)));
  INSERT INTO lock_v1.node (members, longest) VALUES (mine, lease) ON CONFLICT DO NOTHING;
  -- One client at a time.
  SELECT longest INTO longest_one FROM lock_v1.node FOR UPDATE;
  now := clock_timestamp();
  SELECT * INTO s FROM lock_v1.standing WHERE started = run AND place = lock_v1.place();
  IF change = '*' THEN
    UPDATE lock_v1.node SET members = mine, longest = lease RETURNING longest INTO longest_one;
  END IF;
  IF s.started IS NULL OR change = '*' THEN
    DELETE FROM lock_v1.standing;
    INSERT INTO lock_v1.standing SELECT true, run, lock_v1.place(),
      to_hex(system_identifier) || '-' || to_hex(lock_v1.us(run - 'epoch')), seed, NULL, now FROM pg_control_system()
      RETURNING * INTO s;
  END IF;
  IF s.most IS NULL THEN
    longest_one := greatest(longest_one, lease);
    UPDATE lock_v1.node SET longest = longest_one;
    UPDATE lock_v1.standing SET begun = CASE WHEN ending = 'n' THEN NULL ELSE begun END,
      most = CASE WHEN ending = 'c' AND begun + lock_v1.ms(2 * longest_one) <= now THEN longest_one END;
  END IF;
  UPDATE lock_v1.node SET members = mine WHERE members = change;
  RETURN lock_v1.record();
END $$;

-- Ends a quarantine, or allows longer leases than before. Returns whether that is the latest quarantine.
CREATE OR REPLACE FUNCTION lock_v1.vouch(named text, lease bigint)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM lock_v1.check_level();
  PERFORM lock_v1.insist(lock_v1.is_lease(lease));
  PERFORM FROM lock_v1.node FOR UPDATE;
  UPDATE lock_v1.standing SET most = greatest(most, lease)
    WHERE started = pg_postmaster_start_time() AND place = lock_v1.place() AND quarantine = named;
  IF NOT FOUND THEN RETURN false; END IF;
  UPDATE lock_v1.node SET longest = greatest(longest, lease);
  RETURN true;
END $$;

-- For the transactions of users.

-- Fails the transaction unless a lease with this token holds the key, and no newer token was seen. Until the transaction
-- ends, the lease is granted to no other owner: its row stays locked FOR KEY SHARE, and every grant needs it FOR UPDATE.
-- A renewal does not.
CREATE OR REPLACE FUNCTION lock_v1.check_key(k bytea, tok bigint)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz; newest bigint; r record;
BEGIN
  -- Two transactions with tokens of one lease pass one after the other, so that the order of tokens is that of commits.
  INSERT INTO lock_v1.fence AS x VALUES (k, tok) ON CONFLICT (key) DO UPDATE SET seen = greatest(x.seen, tok)
    RETURNING seen INTO newest;
  IF newest > tok THEN
    RAISE EXCEPTION 'a newer fencing token was seen: % after %', newest, tok USING ERRCODE = 'LK001';
  END IF;
  SELECT owner, first, last, ends INTO r FROM lock_v1.key WHERE key = k FOR KEY SHARE;
  now := clock_timestamp();
  IF r.owner <> '' AND r.ends > now AND tok BETWEEN r.first AND r.last THEN RETURN; END IF;
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    -- If the transaction has not seen the last change of the row, these fail to serialize. A repetition sees the change.
    UPDATE lock_v1.key SET plain = plain WHERE key = k;
    IF NOT FOUND THEN INSERT INTO lock_v1.key (key) VALUES (k) ON CONFLICT DO NOTHING; END IF;
  END IF;
  RAISE EXCEPTION 'no lease with the fencing token % holds the lock', tok USING ERRCODE = 'LK001';
END $$;

-- Keeps the lease with this token, in any mode but the exclusive one, until the transaction ends. Returns whether it is held.
CREATE OR REPLACE FUNCTION lock_v1.pin_holder(k bytea, tok bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE now timestamptz; until timestamptz;
BEGIN
  SELECT ends INTO until FROM lock_v1.holder WHERE key = k AND tok BETWEEN first AND coalesce(upto, first + count - 1)
    ORDER BY ends DESC LIMIT 1 FOR KEY SHARE;
  now := clock_timestamp();
  RETURN coalesce(until > now, false);
END $$;

-- Keeps the exclusive lease with this token until the transaction ends. Returns whether it is held. If there is no
-- such lease, it locks no row: a locked row would keep readers out.
CREATE OR REPLACE FUNCTION lock_v1.pin_key(k bytea, tok bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE now timestamptz; until timestamptz;
BEGIN
  SELECT ends INTO until FROM lock_v1.key WHERE key = k AND owner <> '' AND tok BETWEEN first AND last FOR KEY SHARE;
  now := clock_timestamp();
  RETURN coalesce(until > now, false);
END $$;

-- For readers, permits and groups, whose tokens have no order. A process lets readers in before the database has converted its
-- exclusive lease. If the fence has seen a newer token of such a lease, a writer came after the reader.
CREATE OR REPLACE FUNCTION lock_v1.check_shared_key(k bytea, tok bigint)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE pinned boolean;
BEGIN
  IF lock_v1.pin_holder(k, tok) THEN RETURN; END IF;
  pinned := lock_v1.pin_key(k, tok);
  IF pinned AND NOT EXISTS (SELECT FROM lock_v1.fence WHERE key = k AND seen > tok) THEN RETURN; END IF;
  -- The wait for the row may have been one for the conversion.
  IF NOT pinned AND lock_v1.pin_holder(k, tok) THEN RETURN; END IF;
  RAISE EXCEPTION 'no lease with the fencing token % holds the lock', tok USING ERRCODE = 'LK001';
END $$;

-- The names of locks are bytes. These two take them as text. They run in sessions of others, whose search path may lead to
-- functions of others.
CREATE OR REPLACE FUNCTION lock_v1.check(name text, token bigint)
RETURNS void LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS
$$ SELECT lock_v1.check_key(convert_to('n' || name, 'UTF8'), token) $$;

CREATE OR REPLACE FUNCTION lock_v1.check_shared(name text, token bigint)
RETURNS void LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS
$$ SELECT lock_v1.check_shared_key(convert_to('n' || name, 'UTF8'), token) $$;

-- How the verbs find their rows. The tables may have a page when a session plans a statement, and thousands of them soon after.
-- By itself, a session can keep a scan of the whole table, or plan each statement anew, which takes twice the time of a lock. An
-- index is right at every size, so a plan is made once, by index. A table that has no index for a statement is scanned at a cost
-- that only looks high: too high for a compiler to wait with its work. The functions that the verbs call have these settings too.
DO $$
DECLARE f regprocedure;
BEGIN
  FOR f IN SELECT p.oid FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'lock_v1'::regnamespace AND p.prosecdef LOOP
    EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off', f);
  END LOOP;
END $$;

-- PUBLIC gets EXECUTE on every new function. `ALTER DEFAULT PRIVILEGES IN SCHEMA` cannot take that away, because it only
-- adds to the global defaults. So it is revoked here, after every change.
REVOKE ALL ON SCHEMA lock_v1 FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA lock_v1 FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA lock_v1 FROM PUBLIC;

-- Gives a role what a client needs: the verbs, and nothing else. Run it as the owner of the schema.
CREATE OR REPLACE PROCEDURE lock_v1.allow(role name)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE f regprocedure;
BEGIN
  EXECUTE format('GRANT USAGE ON SCHEMA lock_v1 TO %I', role);
  FOR f IN SELECT p.oid FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'lock_v1'::regnamespace
      AND (p.prosecdef OR p.proname IN ('check', 'check_shared')) AND p.proname NOT IN ('force_release', 'pins') LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', f, role);
  END LOOP;
END $$;
REVOKE ALL ON PROCEDURE lock_v1.allow(name) FROM PUBLIC;

-- Gives a role what an operator needs: to end the leases of others, and to find the transactions that keep a lock.
CREATE OR REPLACE PROCEDURE lock_v1.allow_operator(role name)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  CALL lock_v1.allow(role);
  EXECUTE format('GRANT EXECUTE ON FUNCTION lock_v1.force_release(bytea, text), lock_v1.pins(text) TO %I', role);
END $$;
REVOKE ALL ON PROCEDURE lock_v1.allow_operator(name) FROM PUBLIC;

-- A role that was allowed before may call what is new.
DO $$
DECLARE r record;
BEGIN
  FOR r IN SELECT x.rolname, bool_or(p.proname = 'force_release') AS operates
      FROM pg_catalog.pg_proc p CROSS JOIN LATERAL pg_catalog.aclexplode(p.proacl) a
        JOIN pg_catalog.pg_roles x ON x.oid = a.grantee
      WHERE p.pronamespace = 'lock_v1'::regnamespace AND p.proname IN ('acquire', 'force_release') AND a.grantee <> p.proowner
      GROUP BY x.rolname LOOP
    IF r.operates THEN CALL lock_v1.allow_operator(r.rolname); ELSE CALL lock_v1.allow(r.rolname); END IF;
  END LOOP;
END $$;

UPDATE lock_v1.meta SET version = 4, functions = '1000 e066167f122afbfa';
COMMIT;
