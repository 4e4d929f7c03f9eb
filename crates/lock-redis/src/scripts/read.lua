read_lock()
read_state()

