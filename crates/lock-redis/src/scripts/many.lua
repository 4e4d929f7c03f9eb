-- Answers for one lock after another, each with a fixed number of keys and arguments. An error of one lock
-- concerns no other: the script for a single lock meets it again.
local function for_each(keys, words, answer)
  local answers = {}
  for nth = 1, #ALL / keys do
    for key = 1, keys do
      KEYS[key] = ALL[(nth - 1) * keys + key]
    end
    local ok, said = pcall(answer, unpack(ARGV, (nth - 1) * words + 1, nth * words))
    answers[nth] = ok and said or '?'
  end
  return answers
end

-- Whether the flag of the state says if the release has more to do than to delete the lock, and the mark
-- of the lock agrees. If not, the script for a single lock brings them in line.
local function is_settled(is_wanted)
  if is_wanted ~= (state.is_flagged or false) then
    return false
  end
  return marked or not is_wanted or is_foreign()
end

