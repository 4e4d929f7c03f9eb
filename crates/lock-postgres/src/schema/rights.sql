-- PUBLIC gets EXECUTE on every new function. `ALTER DEFAULT PRIVILEGES IN SCHEMA` cannot take that away, because it only
-- adds to the global defaults. So it is revoked here, after every change.
REVOKE ALL ON SCHEMA lock_v1 FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA lock_v1 FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA lock_v1 FROM PUBLIC;

-- Gives a role what a client needs: the verbs, and nothing else. Run it as the owner of the schema.
CREATE OR REPLACE PROCEDURE lock_v1.allow(role name) LANGUAGE plpgsql AS $$
DECLARE f regprocedure;
BEGIN
  EXECUTE format('GRANT USAGE ON SCHEMA lock_v1 TO %I', role);
  FOR f IN SELECT p.oid FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'lock_v1'::regnamespace
      AND (p.prosecdef OR p.proname IN ('check', 'check_shared')) AND p.proname <> 'force_release' LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', f, role);
  END LOOP;
END $$;
REVOKE ALL ON PROCEDURE lock_v1.allow(name) FROM PUBLIC;

-- Gives a role what an operator needs: to end the leases of others.
CREATE OR REPLACE PROCEDURE lock_v1.allow_operator(role name) LANGUAGE plpgsql AS $$
BEGIN
  CALL lock_v1.allow(role);
  EXECUTE format('GRANT EXECUTE ON FUNCTION lock_v1.force_release(bytea, text) TO %I', role);
END $$;
REVOKE ALL ON PROCEDURE lock_v1.allow_operator(name) FROM PUBLIC;
