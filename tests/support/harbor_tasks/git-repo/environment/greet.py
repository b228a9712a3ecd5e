print("goodbye")
