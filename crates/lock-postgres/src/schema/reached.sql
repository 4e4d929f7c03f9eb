-- Version 4: how far a sweep has come, so that each step of it is short.

-- The last key of the step before; NULL between two sweeps. During a sweep, `swept` is the time of that step.
ALTER TABLE lock_v1.meta ADD COLUMN reached bytea;

-- It looked at all keys.
DROP FUNCTION IF EXISTS lock_v1.unused(timestamptz);
