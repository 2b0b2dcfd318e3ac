/* Stands between the program and the library that is ready first. */
int early(void);
int early_user(void);
int early_user(void) { return early(); }
