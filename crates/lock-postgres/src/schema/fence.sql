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
