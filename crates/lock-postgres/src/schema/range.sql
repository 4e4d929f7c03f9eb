-- Version 3: the tokens of a lease that was exclusive. Its renewals may have brought some, and these may lie far apart.

-- A sweep locks the row of this table first, and then reads the others.
LOCK TABLE lock_v1.meta IN ACCESS EXCLUSIVE MODE;

-- The highest token of such a lease. NULL if the lease never was exclusive.
ALTER TABLE lock_v1.holder ADD COLUMN upto bigint;
