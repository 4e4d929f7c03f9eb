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
