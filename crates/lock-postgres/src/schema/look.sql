-- What operators see and do.

CREATE OR REPLACE FUNCTION lock_v1.introduce(mark text, name text, keep int)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz := clock_timestamp();
BEGIN
  DELETE FROM lock_v1.label WHERE ends <= now;
  INSERT INTO lock_v1.label VALUES (mark, name, now + lock_v1.ms(keep))
    ON CONFLICT ON CONSTRAINT label_pkey DO UPDATE SET label = excluded.label, ends = excluded.ends;
  PERFORM set_config('synchronous_commit', 'off', true);
END $$;

-- The holders (part h) and the waiters (part w) of a key, each with the number of all.
CREATE OR REPLACE FUNCTION lock_v1.look(k bytea, most int, now timestamptz)
RETURNS TABLE (part text, kind text, token bigint, rest bigint, name text, total bigint) LANGUAGE sql STABLE AS $$
  (SELECT 'h', left(h.mode, 1) || h.take, h.first, lock_v1.us(h.ends - now), l.label, count(*) OVER ()
    FROM lock_v1.held h LEFT JOIN lock_v1.label l ON l.mark = right(h.owner, 10) AND l.ends > now
    WHERE h.key = k AND h.ends > now LIMIT most)
  UNION ALL
  (SELECT 'w', left(w.mode, 1) || lock_v1.take(w.mode), NULL, lock_v1.us(w.ends - now), l.label, count(*) OVER ()
    FROM lock_v1.waiter w LEFT JOIN lock_v1.label l ON l.mark = right(w.owner, 10) AND l.ends > now
    WHERE w.key = k AND w.ends > now
      AND (w.former IS NULL OR lock_v1.has(k, w.owner, w.former, now)) ORDER BY w.pos LIMIT most)
$$;

CREATE OR REPLACE FUNCTION lock_v1.inspect(k bytea, most int)
RETURNS TABLE (part text, kind text, token bigint, rest bigint, name text, total bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz := clock_timestamp();
BEGIN
  RETURN QUERY SELECT * FROM lock_v1.look(k, most, now);
END $$;

-- A page: so many keys from `lo` on, below `hi`, in their order, each with what `look` says of it.
CREATE OR REPLACE FUNCTION lock_v1.list(lo bytea, hi bytea, page int, most int)
RETURNS TABLE (lock bytea, part text, kind text, token bigint, rest bigint, name text, total bigint)
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
  PERFORM FROM lock_v1.key WHERE key = k FOR NO KEY UPDATE;
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

-- Removes up to `most` rows that were not used for an hour. Tokens go on: they are above the clock of an hour ago.
CREATE OR REPLACE FUNCTION lock_v1.tidy(most int)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now timestamptz := clock_timestamp(); removed bigint;
BEGIN
  DELETE FROM lock_v1.key WHERE key = ANY (ARRAY(
    SELECT key FROM lock_v1.key WHERE plain AND (owner IS NULL OR ends <= now) AND last < lock_v1.floor(now - interval '1 hour')
      LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS removed = ROW_COUNT;
  RETURN removed;
END $$;

CREATE OR REPLACE FUNCTION lock_v1.version()
RETURNS int LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp STABLE AS
$$ SELECT version FROM lock_v1.meta $$;
