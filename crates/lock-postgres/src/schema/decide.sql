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
