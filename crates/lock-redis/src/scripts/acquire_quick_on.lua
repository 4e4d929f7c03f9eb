local value = redis.pcall('GETRANGE', KEYS[1], '0', '33')
