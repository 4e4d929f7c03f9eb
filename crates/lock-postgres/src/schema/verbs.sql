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
