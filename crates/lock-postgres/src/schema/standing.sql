-- Version 2: what a database remembers as a node of a quorum.

-- The quorum whose node this is, and the longest lease that a client named. Each table has one row at most.
CREATE TABLE lock_v1.node (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  members text NOT NULL,
  longest bigint NOT NULL                    -- in milliseconds
);

-- Whether the node may have forgotten votes. A crash and a promotion empty the table, because both may forget what was
-- committed last. So a vote need not wait for the disk. A copy of the row counts nowhere else: a dump has it, and a database
-- that was restored from a dump has forgotten votes.
CREATE UNLOGGED TABLE lock_v1.standing (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  started timestamptz NOT NULL,              -- when the run of the server began that made this row
  place text NOT NULL,                       -- the database and the file in which this row was made
  server text NOT NULL,
  quarantine text NOT NULL,
  most bigint,                               -- the longest lease that was vouched for; NULL in quarantine
  begun timestamptz                          -- of the quarantine; NULL if no clock may end it
);
