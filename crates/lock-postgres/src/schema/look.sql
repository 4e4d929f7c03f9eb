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
