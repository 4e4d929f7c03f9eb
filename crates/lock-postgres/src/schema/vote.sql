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
