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
