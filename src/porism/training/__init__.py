"""How it is learned: one loop for all tasks, with runs on disk that can be stopped, resumed and repeated."""
