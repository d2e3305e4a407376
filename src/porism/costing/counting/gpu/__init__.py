"""What a GPU would run, followed on a machine without one."""
