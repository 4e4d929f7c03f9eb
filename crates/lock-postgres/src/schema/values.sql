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
