-- The run of this server and the history that it took over, as "run+history"; or nothing, and the reason.
local function present_run()
  local run, history, before = present_histories()
  if not run then
    return nil, history
  end
  return run .. '+' .. before
end

