UPDATE sqlite_sequence SET seq = seq + :count WHERE name = 'transitions'
