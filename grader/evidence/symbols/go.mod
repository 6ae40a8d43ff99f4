module phase4/symbols

go 1.24
