-- How the verbs find their rows. The tables may have a page when a session plans a statement, and thousands of them soon after.
-- By itself, a session can keep a scan of the whole table, or plan each statement anew, which takes twice the time of a lock. An
-- index is right at every size, so a plan is made once, by index. A table that has no index for a statement is scanned at a cost
-- that only looks high: too high for a compiler to wait with its work. The functions that the verbs call have these settings too.
DO $$
DECLARE f regprocedure;
BEGIN
  FOR f IN SELECT p.oid FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'lock_v1'::regnamespace AND p.prosecdef LOOP
    EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off', f);
  END LOOP;
END $$;
