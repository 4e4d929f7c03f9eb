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
